"""Names of repositories, and the addresses from and to which a folder was pulled and pushed.

Repositories belong to the user: they are in the private file `repositories.json` in the folder of
`ODF_NODE_CONFIG` (default `~/.config/odf-node`). Remotes belong to a dataset folder: they are in
its `.remotes.json`, which transfers do not copy.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from odf_protocol.errors import Conflict, NotFound
from odf_protocol.identity import Name

from .home import origin_of
from .logins import Logins
from .personal_files import SHARED, config_folder, read_file, write_file
from .urls import Location, Transfer, node_base

REPOSITORIES = "repositories.json"
REMOTES = ".remotes.json"
MAX_PUSHED = 8
"""Limit of push addresses that a folder records."""


class RepositoryUnknown(NotFound):
    """There is no repository of this name."""


class RepositoryExists(Conflict):
    """There is already a repository of this name."""


class Repository(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node or file server; the token is sent only to its origin."""

    url: str
    token: str | None = None

    @property
    def is_smart(self) -> bool:
        return self.url.startswith("odf+")

    @property
    def base(self) -> str:
        """URL for requests to the node, ending in `/`."""
        return node_base(self.url)

    def __repr__(self) -> str:
        return f"Repository({self.url})"


class _Config(msgspec.Struct, kw_only=True):
    repositories: dict[str, Repository] = {}


class Remotes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The source of a dataset folder's pulls, and the default target of its pushes."""

    pull: str | None = None
    push: str | None = None
    pushed: list[str] = []
    """Recorded push addresses, the last one first."""

    @property
    def copies(self) -> list[str]:
        """Known addresses that have the dataset."""
        known = [self.push, *self.pushed, self.pull]
        return list(dict.fromkeys(target for target in known if target is not None))


class Repositories:
    """The repositories of a user, by name; names ignore case."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or config_folder()
        self._path = self._folder / REPOSITORIES
        self._known = read_file(self._path, _Config).repositories

    def all(self) -> dict[str, Repository]:
        return dict(sorted(self._known.items()))

    def find(self, name: str) -> Repository | None:
        wanted = name.lower()
        return next((one for key, one in self._known.items() if key.lower() == wanted), None)

    def get(self, name: str) -> Repository:
        """Return a repository. Raises `RepositoryUnknown`."""
        found = self.find(name)
        if found is None:
            raise RepositoryUnknown(f"there is no repository {name!r}; add it with repo add")
        return found

    def token_at(self, address: str, *, by: Repository | None = None) -> str | None:
        """Return the stored token for the origin of an address."""
        return self.token_of_repository(address, by=by) or self.token_of_login(address)

    def token_of_repository(self, address: str, *, by: Repository | None = None) -> str | None:
        """Return the token of the repository `by`; without it, of one with the same origin."""
        if by is not None:
            return by.token
        there = origin_of(address)
        same = (one.token for one in self._known.values() if origin_of(one.base) == there)
        return next((token for token in same if token), None)

    def token_of_login(self, address: str) -> str | None:
        login = Logins(self._folder).find(address)
        return None if login is None else login.token

    def add(self, name: str, url: str, token: str | None = None) -> Repository:
        """Add a repository. Raises `RepositoryExists`, `MalformedName`, `UnsupportedUrl`."""
        Name(name)
        if self.find(name) is not None:
            raise RepositoryExists(f"there is a repository {name!r} already", repository=name)
        base = node_base(url)
        repository = Repository(url=("odf+" + base) if url.lower().startswith("odf+") else base)
        repository = msgspec.structs.replace(repository, token=token)
        self._write({**self._known, name: repository})
        return repository

    def remove(self, name: str) -> None:
        """Remove a repository. Raises `RepositoryUnknown`."""
        self.get(name)
        rest = {key: one for key, one in self._known.items() if key.lower() != name.lower()}
        self._write(rest)

    def _write(self, known: dict[str, Repository]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._path, _Config(repositories=known))
        self._known = known


def remotes_of(folder: Path) -> Remotes:
    """Return the remotes of a dataset folder; empty if none are recorded."""
    return read_file(folder / REMOTES, Remotes)


def note_remotes(
    folder: Path, *, pull: Location | None = None, push: Location | None = None
) -> None:
    """Record the last pull or push of a folder, if it changes the remotes."""
    known = remotes_of(folder)
    after = Remotes(
        pull=known.pull if pull is None else _noted(pull),
        push=known.push if push is None else _noted(push),
        pushed=known.pushed if push is None else _first(_noted(push), known.pushed),
    )
    if after != known:
        write_file(folder / REMOTES, after, mode=SHARED)


def _first(target: str, others: list[str]) -> list[str]:
    return [target, *(one for one in others if one != target)][:MAX_PUSHED]


def _noted(location: Location) -> str:
    if location.transfer is Transfer.FOLDER and location.path is not None:
        return str(location.path.absolute())
    return str(location)
