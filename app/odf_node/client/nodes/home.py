"""Decide for which node the token in the environment is.

`ODF_NODE_TOKEN` is for the node at `ODF_NODE_URL`; without that, for nodes on this machine.

Environment variables that the client reads, with their meanings.

A user's private files: JSON in the configuration folder, written atomically.

A user's logins: a token per origin, in `logins.json`, which only the user can read.

A token is sent only to the origin that issued it, and not after it has expired.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS, Instant
from odf_protocol.typed import decode_json

CONFIG = "ODF_NODE_CONFIG"
TOKEN = "ODF_NODE_TOKEN"  # noqa: S105 - its name
HOME = "ODF_NODE_URL"
VARIABLES = {
    CONFIG: "Folder of a person's own settings; default: ~/.config/odf-node.",
    TOKEN: "Access token for the node at ODF_NODE_URL.",
    HOME: "The person's node: that of datasets named without one, and of the token; "
    "without it, the token is for nodes on this machine.",
}


_PORTS = {"http": 80, "https": 443}
_HERE = "127.0.0.1"
_LOOPBACK = frozenset({"localhost", _HERE, "::1"})


def is_home(address: str, home: str | None) -> bool:
    """Return whether `address` is on the node at `home`; on this machine if `home` is None."""
    there = origin_of(address)
    if there is None:
        return False
    return there.host == _HERE if home is None else there == origin_of(home)


def home_node() -> str | None:
    """Return the URL of the person's node, `ODF_NODE_URL`; None if it is not set."""
    return os.environ.get(HOME) or None


def token_for(address: str) -> str | None:
    """Return the token of the environment if it is for the node at `address`."""
    token = os.environ.get(TOKEN)
    return token if token and is_home(address, home_node()) else None


class Origin(NamedTuple):
    """Scheme, host and port, which are equal for all addresses of one node."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def origin_of(address: str) -> Origin | None:
    """Return the origin, or None if the text is no URL. All loopback names count as one host."""
    try:
        parts = urlsplit(address.strip().lower().removeprefix("odf+"))
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    return Origin(parts.scheme, _HERE if host in _LOOPBACK else host, port)


MAX_FILE_BYTES = 1024 * 1024
PRIVATE = 0o600
SHARED = 0o644
T = TypeVar("T")


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's settings."""
    if named := environ.get(CONFIG):
        return Path(named)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "odf-node"


def read_file(path: Path, kind: type[T], *, most: int = MAX_FILE_BYTES) -> T:
    """Read a file of `most` bytes; return an empty value if it does not exist. Raises
    `UnreadableConfig`."""
    try:
        with path.open("rb") as stream:
            return decode_json(stream.read(most), kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput("UnreadableConfig", f"{path} cannot be read; correct or remove it") from None


def write_file(path: Path, value: object, *, mode: int = PRIVATE) -> None:
    """Write a file atomically; it is never readable for others in between."""
    pending = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
    handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    pending.replace(path)


LOGINS = "logins.json"
Seconds = Callable[[], float]


class Login(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A token, its account, and its expiry (RFC 3339)."""

    token: str
    account: str
    expires_at: str

    def is_over(self, now_s: float) -> bool:
        return Instant.parse(self.expires_at).ns <= int(now_s * NANOS)

    def __repr__(self) -> str:
        return f"Login({self.account}, until {self.expires_at})"


class _File(msgspec.Struct, kw_only=True):
    logins: dict[str, Login] = {}


class Logins:
    """The logins of a user, by the origin of the node."""

    def __init__(self, folder: Path | None = None, clock: Seconds = time.time) -> None:
        self._path = (folder or config_folder()) / LOGINS
        self._clock = clock
        self._known = read_file(self._path, _File).logins

    def all(self) -> dict[str, Login]:
        """Return all logins by origin, including expired ones."""
        return dict(sorted(self._known.items()))

    def find(self, address: str) -> Login | None:
        """Return the login at the node of an address if it has not expired."""
        found = self._known.get(str(origin_of(address)))
        return None if found is None or found.is_over(self._clock()) else found

    def keep(self, address: str, token: str, account: str, lasts_s: int) -> Login:
        """Store a token, which is then sent to the node of this address."""
        until = Instant(int((self._clock() + lasts_s) * NANOS))
        login = Login(token=token, account=account, expires_at=str(until))
        self._write({**self._known, str(origin_of(address)): login})
        return login

    def forget(self, address: str) -> bool:
        """Remove a login. Return whether there was one."""
        key = str(origin_of(address))
        was_there = key in self._known
        if was_there:
            self._write({name: one for name, one in self._known.items() if name != key})
        return was_there

    def _write(self, known: dict[str, Login]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._path, _File(logins=known))
        self._known = known
