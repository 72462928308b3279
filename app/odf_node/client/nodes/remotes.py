"""Names of repositories, and the addresses from and to which a folder was pulled and pushed.

Repositories belong to the user: they are in the private file `repositories.json` in the folder of
`ODF_NODE_CONFIG` (default `~/.config/odf-node`). Remotes belong to a dataset folder: they are in
its `.remotes.json`, which transfers do not copy.

Locations of datasets as users write them; the scheme alone selects the protocol.

    odf+http://…  odf+https://…   smart transfer (reading and writing)
    http://…      https://…       simple transfer (reading)
    s3://…  s3+http(s)://host/…   a bucket (reading and writing)
    file://…      a plain path    a dataset folder (reading and writing)

A missing trailing slash is added. The client sends no requests to find out the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from odf_protocol.errors import BadInput, Conflict, NotFound
from odf_protocol.identity import Name

from .home import SHARED, Logins, config_folder, origin_of, read_file, write_file

ODF = "odf+"
MAX_URL_CHARS = 4096


class Transfer(Enum):
    """How bytes are transferred to and from a location."""

    SMART = "smart"
    SIMPLE = "simple"
    FOLDER = "folder"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A parsed dataset location. One of `base` (HTTP, ends in `/`), `bucket` and `path` is set."""

    transfer: Transfer
    base: str = ""
    bucket: str = ""
    path: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse a location that a user has typed.

        Raises:
            UnsupportedUrl: the scheme is unknown, there is no host, or the URL has credentials, a
                query or a fragment.
        """
        if not text or len(text) > MAX_URL_CHARS or "\0" in text:
            raise BadInput("UnsupportedUrl", "a dataset location is a URL or a path of a folder")
        scheme, separator, _ = text.partition("://")
        if not separator:
            return cls(transfer=Transfer.FOLDER, path=Path(text))
        match scheme.lower():
            case "file":
                return cls(transfer=Transfer.FOLDER, path=_file_path(text))
            case "http" | "https":
                return cls(transfer=Transfer.SIMPLE, base=http_base(text))
            case "odf+http" | "odf+https":
                return cls(transfer=Transfer.SMART, base=http_base(text[len(ODF) :]))
            case "s3" | "s3+http" | "s3+https":
                return cls(transfer=Transfer.BUCKET, bucket=text.rstrip("/") + "/")
        raise BadInput(
            "UnsupportedUrl",
            f"cannot reach {scheme}:// locations; use odf+http(s)://, http(s)://, s3://, file://, "
            "a path",
            url=text,
        )

    @property
    def websocket_base(self) -> str:
        """Base URL of WebSockets: `https` becomes `wss`, any other scheme `ws`."""
        scheme, _, rest = self.base.partition("://")
        return ("wss://" if scheme == "https" else "ws://") + rest

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        if self.bucket:
            return self.bucket
        return (ODF if self.transfer is Transfer.SMART else "") + self.base


def http_base(text: str) -> str:
    """Normalize an `http(s)` URL so that paths can be appended. Raises `UnsupportedUrl`."""
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname, parts.username, parts.port
    except ValueError:
        raise BadInput("UnsupportedUrl", f"not a URL: {text!r}") from None
    if not host:
        raise BadInput("UnsupportedUrl", f"the URL names no host: {text!r}", url=text)
    if user is not None:
        raise BadInput(
            "UnsupportedUrl", "credentials do not belong into the URL; pass a token instead"
        )
    if parts.query or parts.fragment:
        raise BadInput(
            "UnsupportedUrl", "the URL of a dataset has no query and no fragment", url=text
        )
    if any(ord(char) <= 0x20 for char in text):
        raise BadInput("UnsupportedUrl", f"the URL contains blanks or control characters: {text!r}")
    path = parts.path if parts.path.endswith("/") else parts.path + "/"
    return urlunsplit((parts.scheme.lower(), parts.netloc, path, "", ""))


def node_base(text: str) -> str:
    """Normalize the URL of a node (not of a dataset), with or without `odf+`, to end in `/`."""
    bare = text[len(ODF) :] if text.lower().startswith(ODF) else text
    if not bare.lower().startswith(("http://", "https://")):
        raise BadInput(
            "UnsupportedUrl", f"a node is reached by http:// or https://, not by {text!r}", url=text
        )
    return http_base(bare)


def _file_path(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise BadInput("UnsupportedUrl", f"a file:// URL names no other host: {text!r}", url=text)
    if not parts.path:
        raise BadInput("UnsupportedUrl", f"the URL names no folder: {text!r}", url=text)
    return Path(unquote(parts.path))


REPOSITORIES = "repositories.json"
REMOTES = ".remotes.json"
MAX_ATTESTED = 64
"""Limit of recorded ways of attestations."""
MAX_PUSHED = 8
"""Limit of push addresses that a folder records."""


class NamedRepository(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    repositories: dict[str, NamedRepository] = {}


class Remotes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The source of a dataset folder's pulls, and the default target of its pushes."""

    pull: str | None = None
    push: str | None = None
    pushed: list[str] = []
    """Recorded push addresses, the last one first."""
    attested: dict[str, int] = {}
    """How many attestations went to an address (`to …`), and the number of the last that came from
    one (`from …`)."""

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

    def all(self) -> dict[str, NamedRepository]:
        return dict(sorted(self._known.items()))

    def find(self, name: str) -> NamedRepository | None:
        wanted = name.lower()
        return next((one for key, one in self._known.items() if key.lower() == wanted), None)

    def get(self, name: str) -> NamedRepository:
        """Return a repository. Raises `RepositoryUnknown`."""
        found = self.find(name)
        if found is None:
            raise NotFound(
                "RepositoryUnknown", f"there is no repository {name!r}; add it with repo add"
            )
        return found

    def token_at(self, address: str, by: NamedRepository | None = None) -> str | None:
        """Return the stored token for the origin of an address."""
        return self.token_of_repository(address, by=by) or self.token_of_login(address)

    def token_of_repository(self, address: str, *, by: NamedRepository | None = None) -> str | None:
        """Return the token of the repository `by`; without it, of one with the same origin."""
        if by is not None:
            return by.token
        there = origin_of(address)
        same = (one.token for one in self._known.values() if origin_of(one.base) == there)
        return next((token for token in same if token), None)

    def token_of_login(self, address: str) -> str | None:
        login = Logins(self._folder).find(address)
        return None if login is None else login.token

    def add(self, name: str, url: str, token: str | None = None) -> NamedRepository:
        """Add a repository. Raises `RepositoryExists`, `MalformedName`, `UnsupportedUrl`."""
        Name(name)
        if self.find(name) is not None:
            raise Conflict(
                "RepositoryExists", f"there is a repository {name!r} already", repository=name
            )
        base = node_base(url)
        repository = NamedRepository(
            url=("odf+" + base) if url.lower().startswith("odf+") else base
        )
        repository = msgspec.structs.replace(repository, token=token)
        self._write({**self._known, name: repository})
        return repository

    def remove(self, name: str) -> None:
        """Remove a repository. Raises `RepositoryUnknown`."""
        self.get(name)
        rest = {key: one for key, one in self._known.items() if key.lower() != name.lower()}
        self._write(rest)

    def _write(self, known: dict[str, NamedRepository]) -> None:
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
    after = msgspec.structs.replace(
        known,
        pull=known.pull if pull is None else _noted(pull),
        push=known.push if push is None else _noted(push),
        pushed=known.pushed if push is None else _first(_noted(push), known.pushed),
    )
    if after != known:
        write_file(folder / REMOTES, after, mode=SHARED)


def note_attested(folder: Path, way: str, number: int) -> None:
    """Record how far attestations were copied on that way."""
    known = remotes_of(folder)
    if known.attested.get(way) != number:
        ways = dict(sorted({**known.attested, way: number}.items())[-MAX_ATTESTED:])
        after = msgspec.structs.replace(known, attested=ways)
        write_file(folder / REMOTES, after, mode=SHARED)


def _first(target: str, others: list[str]) -> list[str]:
    return [target, *(one for one in others if one != target)][:MAX_PUSHED]


def _noted(location: Location) -> str:
    if location.transfer is Transfer.FOLDER and location.path is not None:
        return str(location.path.absolute())
    return str(location)
