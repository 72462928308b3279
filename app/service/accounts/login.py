"""Logging in: a password for a session; and for a command line, on a page (RFC 8628)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from odf_node.protocol.errors import BadInput, LimitExceeded, Refused
from odf_node.protocol.instant import NANOS, Instant
from odf_node.protocol.typed import decode_json
from odf_node.storage.stores.ports.values import Account, DeviceLogin

from ..auth.passwords import MAX_PASSWORD_CHARS, SALT_BYTES, hash_password, verify_password
from ..auth.sessions import Session
from ..wiring import Node

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


def log_in(node: Node, method: str, credentials_json: str, address: str) -> Grant:
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
    return begin_session(node, check_password(node, given.login, given.password, address))


def check_password(node: Node, login: str, password: str, address: str) -> Account:
    """The account that the password opens; an absent one takes as long as a wrong guess.

    Raises:
        CredentialsRejected, TooManyAttempts.
    """
    node.throttle.enter(login, address)
    if len(login) > MAX_LOGIN_CHARS or len(password) > MAX_PASSWORD_CHARS:
        raise CredentialsRejected
    account = node.stores.accounts.find_account(login)
    stored = node.stores.accounts.find_password(account.id) if account is not None else None
    if account is None or stored is None:
        hash_password("nobody's", bytes(SALT_BYTES), node.password_cost)
        raise CredentialsRejected
    if not verify_password(password, stored.text):
        raise CredentialsRejected
    node.throttle.succeeded(login, address)
    return account


def begin_session(node: Node, account: Account) -> Grant:
    """A new session of the account."""
    lasts = node.settings.session_ttl_s
    session = Session.begin(account.id, node.clock(), lasts)
    return Grant(session.sign(node.session_secrets[0]), lasts)


def await_device(node: Node, address: str) -> str:
    """The code of a command line that waits for its user. Raises `TooManyDeviceLogins`."""
    now, devices, settings = node.clock(), node.stores.devices, node.settings
    wait = node.throttle.count({(f"device:{address}", ""): settings.device_logins_per_address})
    if wait is not None:
        raise TooManyDeviceLogins(wait)
    devices.remove_expired(now)
    if devices.count() >= settings.max_device_logins:
        raise TooManyDeviceLogins(settings.device_login_ttl_s)
    code = node.random(DEVICE_CODE_BYTES).hex()
    expires = Instant(now.ns + node.settings.device_login_ttl_s * NANOS)
    devices.put(DeviceLogin(code_hash=_hash(code), created_at=now, expires_at=expires))
    return code


def poll_device(node: Node, code: str) -> Grant:
    """The session of a command line, once its user approved it; given out once.

    Raises:
        DeviceGrantRefused: `authorization_pending`, `slow_down`, `access_denied`,
            `expired_token`, `invalid_grant`.
    """
    now, devices, key = node.clock(), node.stores.devices, _hash(code)
    login = devices.find(key)
    if login is None:
        raise DeviceGrantRefused("invalid_grant")
    if login.expires_at <= now:
        raise DeviceGrantRefused("expired_token")
    if login.is_denied:
        raise DeviceGrantRefused("access_denied")
    if login.account is None:
        too_early = login.polled_at and now.ns < login.polled_at.ns + EARLIEST_POLL_S * NANOS
        devices.polled(key, now)
        raise DeviceGrantRefused("slow_down" if too_early else "authorization_pending")
    taken = devices.take(key)
    if taken is None or taken.account is None:
        raise DeviceGrantRefused("invalid_grant")
    return begin_session(node, node.stores.accounts.account(taken.account))


def is_awaited(node: Node, code: str) -> bool:
    """Whether a command line waits under this code for its user to decide."""
    login = node.stores.devices.find(_hash(code))
    if login is None or login.expires_at <= node.clock():
        return False
    return login.account is None and not login.is_denied


def decide_device(node: Node, code: str, account: Account | None) -> bool:
    """Let the command line in as this account, or (None) send it away. False: too late."""
    if not is_awaited(node, code):
        return False
    return node.stores.devices.decide(_hash(code), account.id if account else None)


def _hash(code: str) -> bytes:
    return hashlib.sha3_256(code.encode(errors="replace")).digest()
