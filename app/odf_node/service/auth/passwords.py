"""Passwords: rules for new ones, and the hash that the node stores (scrypt, RFC 7914).

The stored text contains its parameters, `$scrypt$ln=15,r=8,p=3$salt$hash`, so that the cost
of new passwords can be raised while old ones remain valid.

Limits on attempts: failed logins per account and network, per network, and per account, and
other expensive requests per network. The network of a client is its IPv4 address, or its IPv6 /64.

A process counts in its memory, bounded in size; services on one PostgreSQL count in the database.
An attempt counts before its password is checked, so that concurrent guesses cannot exceed the
limit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from odf_protocol.errors import BadInput, LimitExceeded
from odf_storage.runtime.clock import Clock, system_clock
from odf_storage.runtime.networks import network_of
from odf_storage.stores.registers.accounts.accounts import LoginAttempts

MIN_PASSWORD_CHARS = 8
MAX_PASSWORD_CHARS = 1024
SALT_BYTES = 16
HASH_BYTES = 32
MAX_WORK = 20
BLOCK_SIZE = 8
DEFAULT_PASSES = 3
_STORED = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([\w-]+)\$([\w-]+)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one guess: `passes` times 2^work steps over 128 · `block_size` bytes each.

    The default takes 32 MiB of memory and about a quarter of a second.
    """

    work: int = 15
    passes: int = DEFAULT_PASSES
    block_size: int = BLOCK_SIZE

    def derive(self, password: str, salt: bytes) -> bytes:
        count = 2**self.work
        memory = 128 * self.block_size * (count + self.passes + 2)
        return hashlib.scrypt(
            _canonical(password),
            salt=salt,
            n=count,
            r=self.block_size,
            p=self.passes,
            maxmem=memory,
            dklen=HASH_BYTES,
        )


def check_new(password: str) -> str:
    """Return the password if it follows the rules. Raises `PasswordNotTaken`."""
    if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
        raise BadInput(
            "PasswordNotTaken",
            f"a password has {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters",
        )
    try:
        _canonical(password)
    except UnicodeEncodeError:
        raise BadInput(
            "PasswordNotTaken", "a password is text; this one cannot be written in UTF-8"
        ) from None
    return password


def hash_password(password: str, salt: bytes, cost: Cost) -> str:
    """Return the text to store for a password: parameters, salt and hash."""
    derived = cost.derive(password, salt)
    parameters = f"ln={cost.work},r={cost.block_size},p={cost.passes}"
    return f"$scrypt${parameters}${_text(salt)}${_text(derived)}"


def verify_password(password: str, stored: str) -> bool:
    """Return whether the password matches the stored hash. The comparison takes constant time."""
    match = _STORED.fullmatch(stored)
    if match is None or len(password) > MAX_PASSWORD_CHARS:
        return False
    work, block_size, passes = (int(number) for number in match.groups()[:3])
    if not 1 <= work <= MAX_WORK or not block_size or not passes:
        return False
    try:
        salt, expected = _bytes(match[4]), _bytes(match[5])
        derived = Cost(work, passes, block_size).derive(password, salt)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return hmac.compare_digest(derived, expected)


def _canonical(password: str) -> bytes:
    """Return the bytes of the password. They do not depend on how a keyboard composes
    characters."""
    return unicodedata.normalize("NFC", password).encode()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


Key = tuple[str, str]
LOGIN_WINDOW_S = 300.0
"""Seconds after which failed logins are forgotten."""
MAX_KEYS = 10_000
ADDRESS_FACTOR = 20
"""Factor by which one network may fail more often, over all accounts, than with one account."""
ACCOUNT_FACTOR = 100
"""Factor by which guesses of one account's password from all networks together may be more than
those from one. It is large, because whoever reaches it keeps the account's owner out, too."""


class TooManyAttempts(LimitExceeded):
    """Too many logins failed. `retry_after_s` is the number of seconds until the next attempt."""

    def __init__(self, retry_after_s: int, attempts: int, window_s: float) -> None:
        super().__init__(
            f"Too many failed logins; try again in {retry_after_s} seconds",
            retry_after_s=retry_after_s,
            limit=attempts,
            window_s=round(window_s),
            setting="ODF_NODE_LOGIN_ATTEMPTS",
        )


def limits_of(account: str, address: str, attempts: int) -> dict[Key, int]:
    """Return the counters that an attempt increases, with their limits: one for the account from
    the network of this address, one for all accounts from there, one for the account from
    everywhere."""
    network, name = network_of(address), account.lower()[:200]
    return {
        (network, name): attempts,
        (network, ""): attempts * ADDRESS_FACTOR,
        ("", name): attempts * ACCOUNT_FACTOR,
    }


@dataclass
class _Window:
    ends: float
    count: int = 0


@dataclass
class Throttle:
    """Counters of failures within a time window, which begins with the first failure. `now` is a
    monotonic clock in seconds."""

    attempts: int = 5
    window_s: float = LOGIN_WINDOW_S
    now: Callable[[], float] = time.monotonic
    _windows: dict[Key, _Window] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, account: str, address: str) -> None:
        """Count one more guess. Raises `TooManyAttempts`, and then counts nothing."""
        wait = self.count(self._limits(account, address))
        if wait is not None:
            raise TooManyAttempts(wait, self.attempts, self.window_s)

    def count(self, limits: Mapping[Key, int]) -> int | None:
        """Count one attempt for each key and return None. If a limit is reached, count nothing
        and return the seconds to wait."""
        with self._lock:
            now = self.now()
            windows = [self._window(key, now) for key in limits]
            waits = [
                window.ends - now
                for window, limit in zip(windows, limits.values(), strict=True)
                if window.count >= limit
            ]
            if waits:
                return max(1, round(max(waits) + 0.5))
            for window in windows:
                window.count += 1
        return None

    def succeeded(self, account: str, address: str) -> None:
        """Remove the attempt and the failures before it from the counters, because the password
        was right."""
        with self._lock:
            own, *wider = self._limits(account, address)
            known = self._windows.pop(own, None)
            for shared in map(self._windows.get, wider):
                if known is not None and shared is not None:
                    shared.count = max(0, shared.count - known.count)

    def _limits(self, account: str, address: str) -> dict[Key, int]:
        return limits_of(account, address, self.attempts)

    def _window(self, key: Key, now: float) -> _Window:
        window = self._windows.get(key)
        if window is None or window.ends <= now:
            self._windows.pop(key, None)
            if len(self._windows) >= MAX_KEYS:
                self._windows.pop(next(iter(self._windows)))
            window = self._windows[key] = _Window(now + self.window_s)
        return window


@dataclass(frozen=True)
class SharedThrottle:
    """A `Throttle` whose counters services on one database share."""

    counted: LoginAttempts
    attempts: int
    window_s: float
    now: Clock = system_clock

    def enter(self, account: str, address: str) -> None:
        """Count one more guess. Raises `TooManyAttempts`, and then counts nothing."""
        wait = self.count(self._limits(account, address))
        if wait is not None:
            raise TooManyAttempts(wait, self.attempts, self.window_s)

    def count(self, limits: Mapping[Key, int]) -> int | None:
        """Count one attempt for each key and return None. If a limit is reached, count nothing
        and return the seconds to wait."""
        hashed = {_hashed(key): most for key, most in limits.items()}
        wait = self.counted.count(hashed, self.now(), timedelta(seconds=self.window_s))
        return None if wait is None else max(1, round(wait + 0.5))

    def succeeded(self, account: str, address: str) -> None:
        """Remove the attempt and the failures before it from the counters, because the password
        was right."""
        own, *wider = self._limits(account, address)
        self.counted.forgive(_hashed(own), [_hashed(key) for key in wider])

    def _limits(self, account: str, address: str) -> dict[Key, int]:
        return limits_of(account, address, self.attempts)


def _hashed(key: Key) -> bytes:
    return hashlib.sha256(repr(key).encode("utf-8", "backslashreplace")).digest()
