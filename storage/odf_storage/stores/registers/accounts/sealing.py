"""Secrets that services and workers share: encrypted at rest, bound to their owner and name.

The cipher is AES-256-GCM. The first key of the node encrypts and all keys decrypt, so that keys can
be replaced one by one. If no keys are configured, the node uses a key in a file beside its data
that only the node's account can read. A copy of the database alone does not reveal secrets.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odf_protocol.errors import BadInput, Damaged
from odf_protocol.instant import Instant

from ....runtime.private_files import make_private
from ...ports.values import Variable

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
KEY_FILE = "secret.key"
_EPOCH = Instant(0)


def secret_unreadable(name: str, key_id: str | None) -> Damaged:
    """None of this node's keys decrypts the secret."""
    return Damaged(
        "SecretUnreadable",
        f"the secret {name!r} was sealed with the key {key_id}, which this node does not have",
        name=name,
        key_id=key_id,
    )


@dataclass(frozen=True)
class SecretKeys:
    """The node's keys by their ids; the first one encrypts."""

    keys: Mapping[str, bytes] = field(repr=False)

    @property
    def newest(self) -> str:
        """Return the id of the key that encrypts."""
        return next(iter(self.keys))

    def mark_key(self) -> bytes:
        """Return a key for marks of texts that hold secrets: equal texts have equal marks, and
        nobody without the key can try which text it was."""
        return hmac.digest(self.keys[self.newest], b"odf-node marks", "sha3_256")

    def sealed(self, owner: str, name: str, text: str, *, at: Instant) -> Variable:
        nonce = os.urandom(NONCE_BYTES)
        cipher = _cipher(self.keys[self.newest], nonce, owner, name)
        content, tag = cipher.encrypt_and_digest(text.encode())
        return Variable(
            name=name,
            is_secret=True,
            value=nonce + bytes(tag) + bytes(content),
            updated_at=at,
            key_id=self.newest,
        )

    def opened(self, owner: str, variable: Variable) -> str:
        """Return the text of a variable, secret or not. Raises `SecretUnreadable`."""
        if not variable.is_secret:
            return variable.value.decode()
        key = self.keys.get(variable.key_id or "")
        nonce, rest = variable.value[:NONCE_BYTES], variable.value[NONCE_BYTES:]
        if key is None:
            raise secret_unreadable(variable.name, variable.key_id)
        try:
            cipher = _cipher(key, nonce, owner, variable.name)
            return bytes(cipher.decrypt_and_verify(rest[TAG_BYTES:], rest[:TAG_BYTES])).decode()
        except ValueError:
            raise secret_unreadable(variable.name, variable.key_id) from None

    def kept(self, owner: str, name: str, text: str) -> bytes:
        """Return a secret sealed as columns of other tables keep it: the id of the key, a colon,
        and the sealed bytes."""
        secret = self.sealed(owner, name, text, at=_EPOCH)
        return f"{secret.key_id}:".encode() + secret.value

    def text_of(self, owner: str, name: str, kept: bytes) -> str:
        """Return the text of a secret that `kept` made. Raises `SecretUnreadable`."""
        key_id, _, value = kept.partition(b":")
        secret = Variable(
            name=name, is_secret=True, value=value, updated_at=_EPOCH, key_id=key_id.decode()
        )
        return self.opened(owner, secret)

    def renewed(self, owner: str, name: str, kept: bytes) -> bytes | None:
        """Return the secret sealed with the newest key; None if it is. Raises
        `SecretUnreadable`."""
        if kept.startswith(f"{self.newest}:".encode()):
            return None
        return self.kept(owner, name, self.text_of(owner, name, kept))


def open_keys(text: str | None, data: Path) -> SecretKeys:
    """Return the keys of a setting, separated by commas; without it the key of the data folder.

    Raises:
        MalformedKey.
    """
    given = [part.strip() for part in (text or "").split(",") if part.strip()]
    keys = [_parsed(part) for part in given] or [_key_of(data)]
    return SecretKeys({hashlib.sha3_256(key).hexdigest()[:8]: key for key in keys})


def _parsed(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadInput(
            "MalformedKey",
            f"a key of secrets (ODF_STORE_SECRETS_KEYS) is {KEY_BYTES} random bytes in base64, "
            f"as `openssl rand -base64 {KEY_BYTES}` makes them",
        )
    return key


def _key_of(data: Path) -> bytes:
    """Return the key, which the first use creates atomically, even among several processes."""
    path = data / KEY_FILE
    if not path.exists():
        make_private(data)
        pending = data / f".{KEY_FILE}.{os.urandom(6).hex()}"
        handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(os.urandom(KEY_BYTES))
                out.flush()
                os.fsync(out.fileno())
            with suppress(FileExistsError):
                os.link(pending, path)
        finally:
            pending.unlink()
    return path.read_bytes()[:KEY_BYTES]


def _cipher(key: bytes, nonce: bytes, owner: str, name: str) -> Any:
    from Crypto.Cipher import AES  # slow to import, and rarely needed

    cipher = AES.new(key, AES.MODE_GCM, nonce=nonce, mac_len=TAG_BYTES)
    cipher.update(f"variable:{owner}:{name}".encode())
    return cipher
