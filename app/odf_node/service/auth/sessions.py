"""Session tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256 by a secret of the node.

The secret is derived from a secret in the database and the node's key, which is not in the
database: a copy of the database does not suffice to sign sessions.

The code uses no library, because the task is small: one algorithm, one issuer, four claims. A
library would bring a choice of algorithms, which forgeries of such tokens exploit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports import Accounts
from odf_storage.stores.ports.values import AccountId
from odf_storage.stores.publishing.sealing import SecretKeys

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


def session_secrets(accounts: Accounts, keys: SecretKeys, *, lies_open: bool) -> tuple[bytes, ...]:
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
