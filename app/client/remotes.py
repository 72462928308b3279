"""Names for places datasets are published at, and what a folder was pulled from and pushed to.

Repositories are the person's: a file only they read, `repositories.json` in the folder that
`ODF_NODE_CONFIG` names (else `~/.config/odf-node`). Remotes are the dataset folder's own:
`.remotes.json`, which no transfer carries along.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from odf_node.protocol.errors import BadInput, Conflict, NotFound
from odf_node.protocol.identity import Name
from odf_node.protocol.typed import decode_json

from .environment import CONFIG
from .urls import Location, Transfer, node_base

REPOSITORIES = "repositories.json"
REMOTES = ".remotes.json"
MAX_FILE_BYTES = 1024 * 1024
MAX_PUSHED = 8
"""Places a folder was pushed to that are remembered."""
T = TypeVar("T")


class RepositoryUnknown(NotFound):
    """No repository of that name was added."""


class RepositoryExists(Conflict):
    """A repository of that name was added before."""


class UnreadableConfig(BadInput):
    """A file of ours that somebody changed into something else."""


class Repository(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a node is; the token goes to its origin only."""

    url: str
    token: str | None = None

    @property
    def is_smart(self) -> bool:
        return self.url.startswith("odf+")

    @property
    def base(self) -> str:
        """For requests to the node, ending in `/`."""
        return node_base(self.url)

    def __repr__(self) -> str:
        return f"Repository({self.url})"


class _Config(msgspec.Struct, kw_only=True):
    repositories: dict[str, Repository] = {}


class Remotes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a dataset folder follows, and where it is pushed to when nothing is said."""

    pull: str | None = None
    push: str | None = None
    pushed: list[str] = []
    """Every place it was pushed to, the last one first; so many as are remembered."""

    @property
    def copies(self) -> list[str]:
        """Places that have the dataset, as far as the folder knows."""
        known = [self.push, *self.pushed, self.pull]
        return list(dict.fromkeys(target for target in known if target is not None))


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the person's own settings are."""
    if named := environ.get(CONFIG):
        return Path(named)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "odf-node"


class Repositories:
    """The repositories of a person, by name; names compare without case."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or config_folder()) / REPOSITORIES
        self._known = _read(self._path, _Config).repositories

    def all(self) -> dict[str, Repository]:
        return dict(sorted(self._known.items()))

    def find(self, name: str) -> Repository | None:
        wanted = name.lower()
        return next((one for key, one in self._known.items() if key.lower() == wanted), None)

    def get(self, name: str) -> Repository:
        """Raises `RepositoryUnknown`."""
        found = self.find(name)
        if found is None:
            raise RepositoryUnknown(f"there is no repository {name!r}; add it with repo add")
        return found

    def add(self, name: str, url: str, token: str | None = None) -> Repository:
        """Raises `RepositoryExists`, `MalformedName`, `UnsupportedUrl`."""
        Name(name)
        if self.find(name) is not None:
            raise RepositoryExists(f"there is a repository {name!r} already", repository=name)
        base = node_base(url)
        repository = Repository(url=("odf+" + base) if url.lower().startswith("odf+") else base)
        repository = msgspec.structs.replace(repository, token=token)
        self._write({**self._known, name: repository})
        return repository

    def remove(self, name: str) -> None:
        """Raises `RepositoryUnknown`."""
        self.get(name)
        rest = {key: one for key, one in self._known.items() if key.lower() != name.lower()}
        self._write(rest)

    def _write(self, known: dict[str, Repository]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _write(self._path, _Config(repositories=known), mode=0o600)
        self._known = known


def remotes_of(folder: Path) -> Remotes:
    """What is known of a dataset folder; nothing when nothing was noted."""
    return _read(folder / REMOTES, Remotes)


def note_remotes(
    folder: Path, *, pull: Location | None = None, push: Location | None = None
) -> None:
    """Remember the last pull or push of a folder. Folders that cannot be written are left."""
    known = remotes_of(folder)
    after = Remotes(
        pull=known.pull if pull is None else _noted(pull),
        push=known.push if push is None else _noted(push),
        pushed=known.pushed if push is None else _first(_noted(push), known.pushed),
    )
    if after != known:
        _write(folder / REMOTES, after, mode=0o644)


def _first(target: str, others: list[str]) -> list[str]:
    return [target, *(one for one in others if one != target)][:MAX_PUSHED]


def _noted(location: Location) -> str:
    if location.transfer is Transfer.FOLDER and location.path is not None:
        return str(location.path.absolute())
    return str(location)


def _read(path: Path, kind: type[T]) -> T:
    try:
        with path.open("rb") as stream:
            return decode_json(stream.read(MAX_FILE_BYTES), kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (msgspec.DecodeError, UnicodeError):
        raise UnreadableConfig(f"{path} cannot be read; correct or remove it") from None


def _write(path: Path, value: object, *, mode: int) -> None:
    """All at once, and never readable for others in between."""
    pending = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
    handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    pending.replace(path)
