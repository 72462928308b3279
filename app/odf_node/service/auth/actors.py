"""Actors: turn the Authorization header into the actor that sends a request.

There are two kinds of token: access tokens (`ka_…`), and sessions of users who logged in.
A well-formed token that is unknown, revoked or expired, or whose account is disabled, is no error
here: its bearer becomes an anonymous actor with a reason, and the dataset layer decides (see
`access`).
Source: transfer protocol, common HTTP rules.

Session tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256 by a secret of the node.

The secret is derived from a secret in the database and the node's key, which is not in the
database: a copy of the database does not suffice to sign sessions.

The code uses no library, because the task is small: one algorithm, one issuer, four claims. A
library would bring a choice of algorithms, which forgeries of such tokens exploit.

Access tokens: `ka_` and Crockford base32 of id ‖ secret ‖ CRC32.

The id (16 bytes) is the key of the stored token, and the secret (16 random bytes) proves
possession. The store keeps only the hash of the secret. The checksum detects typing errors without
a query to the store.
Source: reference node, personal access tokens (61 characters in all).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports.errors import AccountNotFound
from odf_storage.stores.ports.values import Account, AccountId, Reach, Role, Scope
from odf_storage.stores.registers.accounts.accounts import AccountStore, Identities
from odf_storage.stores.registers.accounts.sealing import SecretKeys

ISSUER = "odf-node"
SECRET_NAME = "session"  # noqa: S105
SECRET_BYTES = 32
_USE = b"odf-node session "
"""Text from which session secrets are derived with the node's key. Each other use of the key has
another text."""
MAX_CHARS = 4096
_log = logging.getLogger("odf.node")
_HEADER: dict[str, object] = {"alg": "HS256", "typ": "JWT"}


class MalformedSession(BadInput):
    """The text is not a session token of this node."""


@dataclass(frozen=True, slots=True)
class Session:
    """A login of an account. Times are in whole seconds since 1970."""

    account: AccountId
    issued_s: int
    expires_s: int

    @classmethod
    def begin(cls, account: AccountId, now: Instant, ttl_s: int) -> Session:
        issued = now.ns // NANOS
        return cls(account, issued, issued + ttl_s)

    def is_expired(self, now: Instant) -> bool:
        return self.expires_s * NANOS <= now.ns

    def sign(self, secret: bytes) -> str:
        """Return the token for the client, signed with the secret."""
        claims = {
            "iat": self.issued_s,
            "exp": self.expires_s,
            "iss": ISSUER,
            "sub": self.account,
        }
        signed = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{signed}.{_text(_signature(signed, secret))}"


def signing_secrets(stored: bytes, keys: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the secrets that sign sessions, one for each of the node's keys. The first signs;
    signatures of all are accepted."""
    return tuple(hmac.digest(key, _USE + stored, hashlib.sha256) for key in keys)


def read_session(text: str, secrets: Iterable[bytes]) -> Session:
    """Return the session of a token, expired or not.

    Raises:
        MalformedSession: the token is not signed with one of `secrets`, or is not of the form
            that `Session.sign` writes.
    """
    signed, _, signature = text.rpartition(".")
    if len(text) > MAX_CHARS or not text.isascii() or signed.count(".") != 1:
        raise MalformedSession("not a session token of this node")
    if not any(hmac.compare_digest(_text(_signature(signed, one)), signature) for one in secrets):
        raise MalformedSession("the session token is not signed by this node")
    header, claims = (_decoded(part) for part in signed.split("."))
    issued, expires, account = claims.get("iat"), claims.get("exp"), claims.get("sub")
    if header != _HEADER or claims.get("iss") != ISSUER or not isinstance(account, str):
        raise MalformedSession("the session token is of another kind")
    if type(issued) is not int or type(expires) is not int:
        raise MalformedSession("the session token has no times")
    return Session(AccountId(account), issued, expires)


def _signature(signed: str, secret: bytes) -> bytes:
    return hmac.digest(secret, signed.encode(), hashlib.sha256)


def _encoded(value: dict[str, object]) -> str:
    return _text(json.dumps(value, separators=(",", ":")).encode())


def _decoded(part: str) -> dict[str, object]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise MalformedSession("the session token cannot be read") from None
    if not isinstance(value, dict):
        raise MalformedSession("the session token cannot be read")
    return value


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def session_secrets(
    accounts: AccountStore, keys: SecretKeys, *, lies_open: bool
) -> tuple[bytes, ...]:
    """Return the secrets that sign sessions. Services on one database need a common key: without
    one, `lies_open` makes them use the unsealed secret in the database, which all can read."""
    stored = accounts.secret(SECRET_NAME, os.urandom(SECRET_BYTES))
    if lies_open:
        _log.warning(
            "sessions are signed by a secret that lies open in the database: set "
            "ODF_STORE_SECRETS_KEYS, the same for all services, to seal it"
        )
        return (stored,)
    return signing_secrets(stored, keys.keys.values())


PREFIX = "ka_"
ID_BYTES = TOKEN_BYTES = 16
CHECKSUM_BYTES = 4
TEXT_CHARS = 61

_RFC4648 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TO_CROCKFORD = str.maketrans(_RFC4648, _CROCKFORD)
_FROM_CROCKFORD = str.maketrans(_CROCKFORD, _RFC4648)


class MalformedToken(BadInput):
    """The text is not an access token."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token as the client keeps it. Only `str()` shows the secret, `repr()` does not."""

    id: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def of_random(cls, random: bytes) -> AccessToken:
        """Make a token from 32 random bytes: id and secret."""
        if len(random) != ID_BYTES + TOKEN_BYTES:
            raise MalformedToken(f"a token is made of {ID_BYTES + TOKEN_BYTES} random bytes")
        return cls(random[:ID_BYTES], random[ID_BYTES:])

    @classmethod
    def parse(cls, text: str) -> AccessToken:
        """Parse a token. Raises `MalformedToken`: wrong prefix, length, alphabet or checksum."""
        if not text.startswith(PREFIX) or len(text) != TEXT_CHARS or not text.isascii():
            raise MalformedToken("not an access token of this node")
        body = text[len(PREFIX) :].upper()
        if any(char not in _CROCKFORD for char in body):
            raise MalformedToken("an access token is written in Crockford base32")
        try:
            raw = base64.b32decode(body.translate(_FROM_CROCKFORD) + "=" * (-len(body) % 8))
        except binascii.Error:
            raise MalformedToken("an access token is written in Crockford base32") from None
        token = cls(raw[:ID_BYTES], raw[ID_BYTES : ID_BYTES + TOKEN_BYTES])
        if raw[-CHECKSUM_BYTES:] != token.checksum:
            raise MalformedToken("the access token's checksum is wrong; was it typed by hand?")
        return token

    @property
    def checksum(self) -> bytes:
        return zlib.crc32(self.id + self.secret).to_bytes(CHECKSUM_BYTES, "big")

    @property
    def stored_id(self) -> str:
        """The key of the stored token: the id in hexadecimal."""
        return self.id.hex()

    @property
    def secret_hash(self) -> bytes:
        """The SHA3-256 of the secret, which the node stores in place of the secret."""
        return hashlib.sha3_256(self.secret).digest()

    def matches(self, secret_hash: bytes) -> bool:
        """Return whether a stored hash is the hash of this secret, in constant time."""
        return hmac.compare_digest(self.secret_hash, secret_hash)

    def __str__(self) -> str:
        raw = self.id + self.secret + self.checksum
        return PREFIX + base64.b32encode(raw).decode().rstrip("=").translate(_TO_CROCKFORD)


MAX_HEADER_CHARS = 8192
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]+) *")
_BASIC = re.compile(r"[Bb][Aa][Ss][Ii][Cc] +([A-Za-z0-9+/_-]*)=* *")


class Reason(Enum):
    """Why an actor is anonymous."""

    NONE_PROVIDED = "No authentication token provided"
    EXPIRED = "Authentication token expired"
    INVALID = "Authentication token invalid"


@dataclass(frozen=True, slots=True)
class Actor:
    """The sender of a request. Without an account it is anonymous, and `reason` says why."""

    account: Account | None = None
    scopes: frozenset[Scope] = frozenset()
    reason: Reason = Reason.NONE_PROVIDED
    bearer: str | None = field(default=None, repr=False)
    """The token as the caller sent it. It is put into fallback transfer URLs."""
    reach: Reach = Reach.NODE
    dataset: DatasetId | None = None
    """The dataset of a token that is valid for this dataset only."""
    reads: DatasetId | None = None
    """The dataset whose files the actor may read because of a signed URL or S3 keys."""
    roles: Mapping[DatasetId, Role] = field(default_factory=dict, repr=False)
    """Roles of the account at datasets of other accounts."""

    @property
    def is_anonymous(self) -> bool:
        return self.account is None

    @property
    def has_session(self) -> bool:
        """Return whether the caller logged in, rather than sent an access token."""
        return self.account is not None and not (self.bearer or PREFIX).startswith(PREFIX)

    def may(self, scope: Scope) -> bool:
        """Return whether the token has the scope. Every other scope includes reading."""
        return scope in self.scopes or (scope is Scope.READ and bool(self.scopes))


ANONYMOUS = Actor()


def bearer_of(
    headers: Sequence[tuple[bytes, bytes]], *, takes_passwords: bool = False
) -> str | None:
    """Return the token in the request headers, or None without an Authorization header.

    With `takes_passwords`, the token may be the password of Basic authentication, with any user
    name: some programs have no field for a token.

    Raises:
        MalformedBearer: another scheme, an empty token, or more than one header.
    """
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if not values:
        return None
    value = values[0].decode("latin-1")[:MAX_HEADER_CHARS]
    if takes_passwords and len(values) == 1 and (found := credentials(value)) is not None:
        return found[1]
    match = _BEARER.fullmatch(value)
    if match is None or len(values) > 1:
        raise BadInput("MalformedBearer", "Invalid Bearer token header")
    return match[1]


def credentials(header: str) -> tuple[str, str] | None:
    """Return name and password of Basic authentication, also without padding, as drivers send it.
    Return None for another scheme, and for what cannot be decoded."""
    match = _BASIC.fullmatch(header)
    if match is None:
        return None
    encoded = match[1].replace("-", "+").replace("_", "/")
    try:
        told = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, _, password = told.partition(":")
    return name, password


RolesOf = Callable[[AccountId], Mapping[DatasetId, Role]]


def _no_roles(_: AccountId) -> Mapping[DatasetId, Role]:
    return {}


def identify(
    bearer: str | None,
    accounts: Identities,
    now: Instant,
    *,
    secrets: Sequence[bytes] = (),
    roles_of: RolesOf = _no_roles,
) -> Actor:
    """Return the actor of a bearer token. A bad token is no error, but gives an anonymous actor.

    `secrets` are the keys that sign sessions; without any, no session is recognized.
    """
    if bearer is None:
        return ANONYMOUS
    if bearer.startswith(PREFIX) or not secrets:
        return _by_token(bearer, accounts, now, roles_of)
    return _by_session(bearer, accounts, now, secrets, roles_of)


def _by_token(bearer: str, accounts: Identities, now: Instant, roles_of: RolesOf) -> Actor:
    try:
        token = AccessToken.parse(bearer)
    except MalformedToken:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    stored = accounts.find_token(token.stored_id)
    if stored is None or not token.matches(stored.secret_hash) or stored.revoked_at is not None:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    if stored.expires_at is not None and stored.expires_at <= now:
        return Actor(reason=Reason.EXPIRED, bearer=bearer)
    account = accounts.account(stored.account)
    if account.disabled_at is not None:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    return Actor(
        account,
        stored.scopes,
        bearer=bearer,
        reach=stored.reach,
        dataset=stored.dataset,
        roles=roles_of(stored.account),
    )


def _by_session(
    bearer: str, accounts: Identities, now: Instant, secrets: Sequence[bytes], roles_of: RolesOf
) -> Actor:
    """Return the actor of a session. A change of the password, and a logout at the provider, end
    all earlier sessions."""
    try:
        session = read_session(bearer, secrets)
    except MalformedSession:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    if session.is_expired(now):
        return Actor(reason=Reason.EXPIRED, bearer=bearer)
    try:
        account = accounts.account(session.account)
    except AccountNotFound:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    if account.disabled_at is not None:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    if account.sessions_end is not None and session.issued_s <= account.sessions_end.ns // NANOS:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    password = accounts.find_password(account.id)
    if password is not None and session.issued_s < password.changed_at.ns // NANOS:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    return Actor(account, frozenset(Scope), bearer=bearer, roles=roles_of(account.id))
