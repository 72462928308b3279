"""Positions in the log of the node as clients write them: sealed, since the log counts the moves of
all datasets, those that a listener may not read, too.

The cipher is AES-SIV, with keys derived from those of the node's secrets: an event has the same id
for every listener. Positions at which streams begin have a salt, so that two of them do not tell
whether anything happened between them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from odf_protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_storage.runtime.randomness import Random
from odf_storage.stores.publishing.sealing import SecretKeys

from .feeds import BEGINNING, InvalidPosition, LogPosition

NUMBER_BYTES, SALT_BYTES, TAG_BYTES = 8, 8, 16
OF_EVENT = bytes(SALT_BYTES)
"""The salt of positions that events have."""


@dataclass(frozen=True)
class SealedPositions:
    """Writes positions by the newest key of the node, and reads them by all its keys."""

    keys: SecretKeys
    random: Random

    def of_event(self, position: LogPosition) -> str:
        return self._sealed(position, OF_EVENT)

    def of_start(self, position: LogPosition) -> str:
        """Write the position at which a stream begins."""
        return self._sealed(position, self.random(SALT_BYTES))

    def parse(self, text: str) -> LogPosition:
        """Read the id of an event. Raises `InvalidPosition`."""
        if text == BEGINNING:
            return LogPosition(0)
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise InvalidPosition(text) from None
        for key in self.keys.keys.values():
            try:
                plain = _cipher(key).decrypt_and_verify(raw[TAG_BYTES:], raw[:TAG_BYTES])
                return _read(bytes(plain))
            except (ValueError, MalformedHash, MalformedMultibase):
                continue
        raise InvalidPosition(text)

    def _sealed(self, position: LogPosition, salt: bytes) -> str:
        block = "" if position.block is None else str(position.block)
        plain = position.number.to_bytes(NUMBER_BYTES) + salt + block.encode()
        content, tag = _cipher(self.keys.keys[self.keys.newest]).encrypt_and_digest(plain)
        return base64.urlsafe_b64encode(tag + content).rstrip(b"=").decode()


def _read(plain: bytes) -> LogPosition:
    number, block = plain[:NUMBER_BYTES], plain[NUMBER_BYTES + SALT_BYTES :].decode()
    return LogPosition(int.from_bytes(number), Multihash.parse(block) if block else None)


def _cipher(key: bytes) -> Any:
    from Crypto.Cipher import AES  # slow to import, and rarely needed

    return AES.new(_derived(key), AES.MODE_SIV)


@lru_cache(maxsize=16)
def _derived(key: bytes) -> bytes:
    return hashlib.sha3_512(b"positions of events:" + key).digest()
