"""Names for places datasets are published at, and what a folder was pulled from and pushed to.

Repositories are the person's: a file only they read, `repositories.json` in the folder that
`ODF_NODE_CONFIG` names (else `~/.config/odf-node`). Remotes are the dataset folder's own:
`.remotes.json`, which no transfer carries along.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from odf_node.protocol.errors import Conflict, NotFound
from odf_node.protocol.identity import Name

from .home import origin_of
from .logins import Logins
from .personal_files import SHARED, config_folder, read_file, write_file
from .urls import Location, Transfer, node_base

REPOSITORIES = "repositories.json"
REMOTES = ".remotes.json"
MAX_PUSHED = 8
"""Places a folder was pushed to that are remembered."""


class RepositoryUnknown(NotFound):
    """No repository of that name was added."""


class RepositoryExists(Conflict):
    """A repository of that name was added before."""


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


class Repositories:
    """The repositories of a person, by name; names compare without case."""

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
        """Raises `RepositoryUnknown`."""
        found = self.find(name)
        if found is None:
            raise RepositoryUnknown(f"there is no repository {name!r}; add it with repo add")
        return found

    def token_at(self, address: str, *, by: Repository | None = None) -> str | None:
        """What the person keeps for the origin of an address."""
        return self.token_of_repository(address, by=by) or self.token_of_login(address)

    def token_of_repository(self, address: str, *, by: Repository | None = None) -> str | None:
        """The token of the repository that names the address, else of one of the same origin."""
        if by is not None:
            return by.token
        there = origin_of(address)
        same = (one.token for one in self._known.values() if origin_of(one.base) == there)
        return next((token for token in same if token), None)

    def token_of_login(self, address: str) -> str | None:
        login = Logins(self._folder).find(address)
        return None if login is None else login.token

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
        write_file(self._path, _Config(repositories=known))
        self._known = known


def remotes_of(folder: Path) -> Remotes:
    """What is known of a dataset folder; nothing when nothing was noted."""
    return read_file(folder / REMOTES, Remotes)


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
        write_file(folder / REMOTES, after, mode=SHARED)


def _first(target: str, others: list[str]) -> list[str]:
    return [target, *(one for one in others if one != target)][:MAX_PUSHED]


def _noted(location: Location) -> str:
    if location.transfer is Transfer.FOLDER and location.path is not None:
        return str(location.path.absolute())
    return str(location)
