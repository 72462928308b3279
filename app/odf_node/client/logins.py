"""A user's logins: a token per origin, in `logins.json`, which only the user can read.

A token is sent only to the origin that issued it, and not after it has expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from odf_protocol.instant import NANOS, Instant

from .home import origin_of
from .personal_files import config_folder, read_file, write_file

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
