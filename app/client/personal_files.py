"""A person's own files: JSON in a folder of theirs, written all at once, read by nobody else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from odf_node.protocol.errors import BadInput
from odf_node.protocol.typed import decode_json

from .environment import CONFIG

MAX_FILE_BYTES = 1024 * 1024
PRIVATE = 0o600
SHARED = 0o644
T = TypeVar("T")


class UnreadableConfig(BadInput):
    """A file of ours that somebody changed into something else."""


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the person's own settings are."""
    if named := environ.get(CONFIG):
        return Path(named)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "odf-node"


def read_file(path: Path, kind: type[T]) -> T:
    """An empty one when there is no such file. Raises `UnreadableConfig`."""
    try:
        with path.open("rb") as stream:
            return decode_json(stream.read(MAX_FILE_BYTES), kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (msgspec.DecodeError, UnicodeError):
        raise UnreadableConfig(f"{path} cannot be read; correct or remove it") from None


def write_file(path: Path, value: object, *, mode: int = PRIVATE) -> None:
    """All at once, and never readable for others in between."""
    pending = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
    handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    pending.replace(path)
