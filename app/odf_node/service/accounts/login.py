"""Login: exchange a password for a session, or log in a command line on a web page (RFC 8628).

Change of the caller's own password, which needs the old password: a token is not enough.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odf_protocol.errors import BadInput, LimitExceeded, Refused
from odf_protocol.instant import NANOS, Instant
from odf_protocol.typed import decode_json
from odf_storage.runtime.clock import Clock, Random
from odf_storage.runtime.networks import network_of
from odf_storage.stores.ports.values import Account, DeviceLogin
from odf_storage.stores.registers.accounts.access import DeviceLogins
from odf_storage.stores.registers.accounts.accounts import AccountStore, Identities

from ..auth.access import Unauthenticated
from ..auth.actors import Actor, Session
from ..auth.passwords import (
    MAX_PASSWORD_CHARS,
    SALT_BYTES,
    Cost,
    SharedThrottle,
    Throttle,
    hash_password,
    verify_password,
)
from .accounts import account_disabled, set_password

MAX_DEVICE_LOGINS = 2_000
"""Most command lines that may wait for their users at a time."""

DEVICE_CODE_GUESSES = 50
"""Codes of waiting command lines one address may type within that window, right ones included."""

DEVICE_LOGINS_PER_ADDRESS = 100
"""Logins of command lines one address may begin within the window of the throttle."""

DEVICE_LOGIN_TTL_S = 300
"""Seconds a command line waits for its user to log in on a page."""

PASSWORD = "password"  # noqa: S105
MAX_LOGIN_CHARS = 200
DEVICE_CODE_BYTES = 32
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Those of RFC 8628 (6.1): no vowels, so no words, and none that look like digits."""
USER_CODE_PART = 4
MAX_CLIENT_CHARS = 60
DEVICE_INTERVAL_S = 5
"""Seconds that a command line is asked to wait between two polls."""
EARLIEST_POLL_S = DEVICE_INTERVAL_S - 1
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class CredentialsRejected(Refused):
    """There is no such account, it has no password, or the password is wrong."""

    def __init__(self) -> None:
        super().__init__("Rejected credentials: invalid login or password")


def device_grant_refused(code: str) -> BadInput:
    """A command line gets no token (yet). The message is an error code of RFC 8628."""
    return BadInput("DeviceGrantRefused", code, error=code)


class TooManyCodes(LimitExceeded):
    """One address typed too many codes of waiting command lines."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(
            f"Too many codes were typed; try again in {retry_after_s} seconds",
            retry_after_s=retry_after_s,
        )


def too_many_device_logins(retry_after_s: int) -> LimitExceeded:
    """Too many command lines wait for their users, from one address or in sum."""
    return LimitExceeded(
        "TooManyDeviceLogins",
        "Too many logins are waiting; try again later",
        retry_after_s=retry_after_s,
    )


class PasswordCredentials(msgspec.Struct, frozen=True):
    """The credentials of the login method `password`."""

    login: str
    password: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """A session token for a client, with its lifetime in seconds."""

    token: str = field(repr=False)
    expires_in_s: int


@dataclass(frozen=True)
class LoginWay:
    """A way to sign in that is a page of its own, such as that of an identity provider."""

    label: str
    path: str
    """Path of the page, which takes the query parameter `next`."""
    leave: Callable[[Request, Response], str | None]
    """Called when somebody signs out: it forgets in the response what the way left in the browser,
    and returns the address where they may sign out elsewhere, too. It may block."""


@dataclass(frozen=True)
class LoginWays:
    """All ways to sign in beside passwords and access tokens."""

    ways: tuple[LoginWay, ...] = ()


@dataclass(frozen=True)
class Passwords:
    """The dependencies of password checks, with the limit on guessing."""

    accounts: AccountStore
    throttle: Throttle | SharedThrottle
    cost: Cost


@dataclass(frozen=True)
class Sessions:
    """The secret that signs sessions, and their lifetime in seconds."""

    secret: bytes = field(repr=False)
    ttl_s: int
    clock: Clock


@dataclass(frozen=True)
class Devices:
    """The logins of command lines that wait for their users, and the limits on them."""

    logins: DeviceLogins
    accounts: Identities
    sessions: Sessions
    throttle: Throttle | SharedThrottle
    ttl_s: int
    most: int
    most_per_address: int
    guesses: int
    """Codes that one address may type within the window of the throttle."""
    clock: Clock
    random: Random


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of a waiting command line: its secret, and the one that its user types."""

    device: str = field(repr=False)
    user: str


def log_in(
    passwords: Passwords, sessions: Sessions, method: str, credentials_json: str, address: str
) -> Grant:
    """Begin a session for credentials.

    Raises:
        UnknownLoginMethod, MalformedCredentials, CredentialsRejected, TooManyAttempts.
    """
    if method != PASSWORD:
        raise BadInput(
            "UnknownLoginMethod", f"Unsupported login method '{method[:50]}'", known=[PASSWORD]
        )
    try:
        given = decode_json(credentials_json, PasswordCredentials)
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput(
            "MalformedCredentials",
            'loginCredentialsJson is a text holding {"login":…,"password":…}',
        ) from None
    account = check_password(passwords, given.login, given.password, address)
    return begin_session(sessions, account)


def check_password(passwords: Passwords, login: str, password: str, address: str) -> Account:
    """Return the account if the password is right. The check of an unknown account takes as long
    as that of a wrong password.

    Raises:
        CredentialsRejected, TooManyAttempts, AccountDisabled.
    """
    passwords.throttle.enter(login, address)
    if len(login) > MAX_LOGIN_CHARS or len(password) > MAX_PASSWORD_CHARS:
        raise CredentialsRejected
    account = passwords.accounts.find_account(login)
    stored = passwords.accounts.find_password(account.id) if account is not None else None
    if account is None or stored is None:
        hash_password("nobody's", bytes(SALT_BYTES), passwords.cost)
        raise CredentialsRejected
    if not verify_password(password, stored.text):
        raise CredentialsRejected
    if account.disabled_at is not None:  # whoever knows the password may know this as well
        raise account_disabled(account)
    passwords.throttle.succeeded(login, address)
    return account


def begin_session(sessions: Sessions, account: Account) -> Grant:
    """Begin a session of the account."""
    session = Session.begin(account.id, sessions.clock(), sessions.ttl_s)
    return Grant(session.sign(sessions.secret), sessions.ttl_s)


def await_device(devices: Devices, address: str, client: str) -> Codes:
    """Begin the login of a command line, which calls itself `client`; return the codes under which
    it waits for its user. Raises `TooManyDeviceLogins`."""
    now, logins = devices.clock(), devices.logins
    begun = (f"device:{network_of(address)}", "")
    wait = devices.throttle.count({begun: devices.most_per_address})
    if wait is not None:
        raise too_many_device_logins(wait)
    logins.remove_expired(now)
    if logins.count() >= devices.most:
        raise too_many_device_logins(devices.ttl_s)
    codes = Codes(devices.random(DEVICE_CODE_BYTES).hex(), _user_code(devices))
    logins.put(
        DeviceLogin(
            code_hash=_hash(codes.device),
            created_at=now,
            expires_at=Instant(now.ns + devices.ttl_s * NANOS),
            user_code_hash=_hash(codes.user),
            client=_shown(client),
            address=address,
        )
    )
    return codes


def _user_code(devices: Devices) -> str:
    """Return a code of two parts that no other command line has."""
    while True:
        number = int.from_bytes(devices.random(16))
        letters = ""
        for _ in range(2 * USER_CODE_PART):
            number, one = divmod(number, len(USER_CODE_LETTERS))
            letters += USER_CODE_LETTERS[one]
        code = f"{letters[:USER_CODE_PART]}-{letters[USER_CODE_PART:]}"
        if devices.logins.find_by_user_code(_hash(code)) is None:
            return code


def _shown(client: str) -> str:
    """Return the name of a client without what could mislead its reader."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in client[:MAX_CLIENT_CHARS])


def poll_device(devices: Devices, code: str) -> Grant:
    """Return the session of a command line after its user approved it. A code works once.

    Raises:
        DeviceGrantRefused: `authorization_pending`, `slow_down`, `access_denied`,
            `expired_token`, `invalid_grant`.
    """
    now, logins, key = devices.clock(), devices.logins, _hash(code)
    login = logins.find(key)
    if login is None:
        raise device_grant_refused("invalid_grant")
    if login.expires_at <= now:
        raise device_grant_refused("expired_token")
    if login.is_denied:
        raise device_grant_refused("access_denied")
    if login.account is None:
        too_early = login.polled_at and now.ns < login.polled_at.ns + EARLIEST_POLL_S * NANOS
        logins.polled(key, now)
        raise device_grant_refused("slow_down" if too_early else "authorization_pending")
    taken = logins.take(key)
    if taken is None or taken.account is None:
        raise device_grant_refused("invalid_grant")
    account = devices.accounts.account(taken.account)
    if account.disabled_at is not None:
        raise device_grant_refused("access_denied")
    return begin_session(devices.sessions, account)


def find_waiting(devices: Devices, code: str) -> DeviceLogin | None:
    """Return the login with this secret code that waits for the decision of its user."""
    return _undecided(devices, devices.logins.find(_hash(code)))


def find_typed(devices: Devices, typed: str, address: str) -> DeviceLogin | None:
    """Return the login whose user typed this code, in letters of any case, with or without the
    hyphen. Raises `TooManyCodes`."""
    wait = devices.throttle.count({(f"device-code:{network_of(address)}", ""): devices.guesses})
    if wait is not None:
        raise TooManyCodes(wait)
    letters = "".join(filter(str.isalpha, typed.upper()))
    code = f"{letters[:USER_CODE_PART]}-{letters[USER_CODE_PART:]}"
    return _undecided(devices, devices.logins.find_by_user_code(_hash(code)))


def _undecided(devices: Devices, login: DeviceLogin | None) -> DeviceLogin | None:
    if login is None or login.expires_at <= devices.clock():
        return None
    return login if login.account is None and not login.is_denied else None


def decide_device(devices: Devices, login: DeviceLogin, account: Account | None) -> bool:
    """Approve the command line for this account, or deny it if `account` is None. Return False if
    it does not wait any more."""
    if _undecided(devices, login) is None:
        return False
    return devices.logins.decide(login.code_hash, account.id if account else None)


def _hash(code: str) -> bytes:
    return hashlib.sha3_256(code.encode(errors="replace")).digest()


def change_password(
    passwords: Passwords, sessions: Sessions, actor: Actor, old: str, new: str, address: str
) -> Account:
    """Change the password of the actor's account, which ends its sessions.

    Raises:
        Unauthenticated, CredentialsRejected, TooManyAttempts, PasswordNotTaken.
    """
    if actor.account is None:
        raise Unauthenticated
    account = check_password(passwords, str(actor.account.name), old, address)
    accounts = passwords.accounts
    set_password(accounts, account, new, os.urandom, sessions.clock(), passwords.cost)
    return account
