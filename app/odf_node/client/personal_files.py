"""A user's private files: JSON in the configuration folder, written atomically."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json

from .environment import CONFIG

MAX_FILE_BYTES = 1024 * 1024
PRIVATE = 0o600
SHARED = 0o644
T = TypeVar("T")


class UnreadableConfig(BadInput):
    """A configuration file is not readable as what it should be."""


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's settings."""
    if named := environ.get(CONFIG):
        return Path(named)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "odf-node"


def read_file(path: Path, kind: type[T]) -> T:
    """Read a file; return an empty value if it does not exist. Raises `UnreadableConfig`."""
    try:
        with path.open("rb") as stream:
            return decode_json(stream.read(MAX_FILE_BYTES), kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (msgspec.DecodeError, UnicodeError):
        raise UnreadableConfig(f"{path} cannot be read; correct or remove it") from None


def write_file(path: Path, value: object, *, mode: int = PRIVATE) -> None:
    """Write a file atomically; it is never readable for others in between."""
    pending = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
    handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    pending.replace(path)
