"""Logging in: a password for a session; and for a command line, on a page (RFC 8628)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from odf_node.protocol.errors import BadInput, LimitExceeded, Refused
from odf_node.protocol.instant import NANOS, Instant
from odf_node.protocol.typed import decode_json
from odf_node.storage.runtime.clock import Clock
from odf_node.storage.runtime.randomness import Random
from odf_node.storage.stores.ports import AccountStore, DeviceLogins, Identities
from odf_node.storage.stores.ports.values import Account, DeviceLogin

from ..auth.passwords import MAX_PASSWORD_CHARS, SALT_BYTES, Cost, hash_password, verify_password
from ..auth.sessions import Session
from ..auth.throttle import SharedThrottle, Throttle

PASSWORD = "password"  # noqa: S105
MAX_LOGIN_CHARS = 200
DEVICE_CODE_BYTES = 32
DEVICE_INTERVAL_S = 5
"""Seconds a command line is told to wait between two questions."""
EARLIEST_POLL_S = DEVICE_INTERVAL_S - 1
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class UnknownLoginMethod(BadInput):
    """A way to log in that this node does not offer."""

    def __init__(self, method: str) -> None:
        super().__init__(f"Unsupported login method '{method[:50]}'", known=[PASSWORD])


class MalformedCredentials(BadInput):
    """Login credentials that are not what the method takes."""


class CredentialsRejected(Refused):
    """No such account, no password set, or another password."""

    def __init__(self) -> None:
        super().__init__("Rejected credentials: invalid login or password")


class DeviceGrantRefused(BadInput):
    """Why a command line gets no token (yet): an error code of RFC 8628 as the message."""

    def __init__(self, code: str) -> None:
        super().__init__(code, error=code)


class TooManyDeviceLogins(LimitExceeded):
    """More command lines than this node lets wait for their users: from one address, or in sum."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(
            "Too many logins are waiting; try again later", retry_after_s=retry_after_s
        )


class PasswordCredentials(msgspec.Struct, frozen=True):
    """What the method `password` takes."""

    login: str
    password: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """A session, as its client gets it."""

    token: str = field(repr=False)
    expires_in_s: int


@dataclass(frozen=True)
class Passwords:
    """What opens accounts, and what bounds guessing."""

    accounts: AccountStore
    throttle: Throttle | SharedThrottle
    cost: Cost


@dataclass(frozen=True)
class Sessions:
    """What sessions are signed by, and how long they last."""

    secret: bytes = field(repr=False)
    ttl_s: int
    clock: Clock


@dataclass(frozen=True)
class Devices:
    """Command lines that wait for their users, and how many may."""

    logins: DeviceLogins
    accounts: Identities
    sessions: Sessions
    throttle: Throttle | SharedThrottle
    ttl_s: int
    most: int
    most_per_address: int
    clock: Clock
    random: Random


def log_in(
    passwords: Passwords, sessions: Sessions, method: str, credentials_json: str, address: str
) -> Grant:
    """A session for credentials.

    Raises:
        UnknownLoginMethod, MalformedCredentials, CredentialsRejected, TooManyAttempts.
    """
    if method != PASSWORD:
        raise UnknownLoginMethod(method)
    try:
        given = decode_json(credentials_json, PasswordCredentials)
    except (msgspec.DecodeError, UnicodeError):
        raise MalformedCredentials(
            'loginCredentialsJson is a text holding {"login":…,"password":…}'
        ) from None
    account = check_password(passwords, given.login, given.password, address)
    return begin_session(sessions, account)


def check_password(passwords: Passwords, login: str, password: str, address: str) -> Account:
    """The account that the password opens; an absent one takes as long as a wrong guess.

    Raises:
        CredentialsRejected, TooManyAttempts.
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
    passwords.throttle.succeeded(login, address)
    return account


def begin_session(sessions: Sessions, account: Account) -> Grant:
    """A new session of the account."""
    session = Session.begin(account.id, sessions.clock(), sessions.ttl_s)
    return Grant(session.sign(sessions.secret), sessions.ttl_s)


def await_device(devices: Devices, address: str) -> str:
    """The code of a command line that waits for its user. Raises `TooManyDeviceLogins`."""
    now, logins = devices.clock(), devices.logins
    wait = devices.throttle.count({(f"device:{address}", ""): devices.most_per_address})
    if wait is not None:
        raise TooManyDeviceLogins(wait)
    logins.remove_expired(now)
    if logins.count() >= devices.most:
        raise TooManyDeviceLogins(devices.ttl_s)
    code = devices.random(DEVICE_CODE_BYTES).hex()
    expires = Instant(now.ns + devices.ttl_s * NANOS)
    logins.put(DeviceLogin(code_hash=_hash(code), created_at=now, expires_at=expires))
    return code


def poll_device(devices: Devices, code: str) -> Grant:
    """The session of a command line, once its user approved it; given out once.

    Raises:
        DeviceGrantRefused: `authorization_pending`, `slow_down`, `access_denied`,
            `expired_token`, `invalid_grant`.
    """
    now, logins, key = devices.clock(), devices.logins, _hash(code)
    login = logins.find(key)
    if login is None:
        raise DeviceGrantRefused("invalid_grant")
    if login.expires_at <= now:
        raise DeviceGrantRefused("expired_token")
    if login.is_denied:
        raise DeviceGrantRefused("access_denied")
    if login.account is None:
        too_early = login.polled_at and now.ns < login.polled_at.ns + EARLIEST_POLL_S * NANOS
        logins.polled(key, now)
        raise DeviceGrantRefused("slow_down" if too_early else "authorization_pending")
    taken = logins.take(key)
    if taken is None or taken.account is None:
        raise DeviceGrantRefused("invalid_grant")
    return begin_session(devices.sessions, devices.accounts.account(taken.account))


def is_awaited(devices: Devices, code: str) -> bool:
    """Whether a command line waits under this code for its user to decide."""
    login = devices.logins.find(_hash(code))
    if login is None or login.expires_at <= devices.clock():
        return False
    return login.account is None and not login.is_denied


def decide_device(devices: Devices, code: str, account: Account | None) -> bool:
    """Let the command line in as this account, or (None) send it away. False: too late."""
    if not is_awaited(devices, code):
        return False
    return devices.logins.decide(_hash(code), account.id if account else None)


def _hash(code: str) -> bytes:
    return hashlib.sha3_256(code.encode(errors="replace")).digest()
