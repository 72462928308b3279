"""Secrets of others that the node has to keep: encrypted, and bound to what they are for.

AES-256-GCM. The key lies beside the data in a file only its owner reads, not in the database:
a copy of the database alone opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.errors import Damaged

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
KEY_FILE = "secret.key"


class SealBroken(Damaged):
    """A secret that this node's key does not open."""


@dataclass(frozen=True)
class Sealer:
    """Encrypts and decrypts; `use` names what a secret is for, and has to be the same again."""

    key: bytes = field(repr=False)

    def seal(self, text: str, *, use: str, random: Callable[[int], bytes] = os.urandom) -> bytes:
        nonce = random(NONCE_BYTES)
        cipher = self._cipher(nonce, use)
        sealed, tag = cipher.encrypt_and_digest(text.encode())
        return nonce + bytes(tag) + bytes(sealed)

    def open(self, sealed: bytes, *, use: str) -> str:
        """Raises `SealBroken`."""
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            cipher = self._cipher(nonce, use)
            text = cipher.decrypt_and_verify(rest[TAG_BYTES:], rest[:TAG_BYTES])
        except ValueError:
            raise SealBroken("a secret cannot be opened with the key of this node") from None
        return bytes(text).decode()

    def _cipher(self, nonce: bytes, use: str) -> Any:
        from Crypto.Cipher import AES  # slow to import, and rarely needed

        cipher = AES.new(self.key, AES.MODE_GCM, nonce=nonce, mac_len=TAG_BYTES)
        cipher.update(use.encode())
        return cipher


def open_sealer(folder: Path) -> Sealer:
    """With the key in the folder; made at the first use."""
    path = folder / KEY_FILE
    if not path.exists():
        _make_key(path)
    return Sealer(path.read_bytes()[:KEY_BYTES])


def _make_key(path: Path) -> None:
    """All at once: of several processes that try, one succeeds."""
    pending = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(os.urandom(KEY_BYTES))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(pending, path)
        except FileExistsError:
            return
    finally:
        pending.unlink()
