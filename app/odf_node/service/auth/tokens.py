"""Access tokens: `ka_` and Crockford base32 of id ‖ secret ‖ CRC32.

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
import zlib
from dataclasses import dataclass, field

from odf_protocol.errors import BadInput

PREFIX = "ka_"
ID_BYTES = SECRET_BYTES = 16
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
        if len(random) != ID_BYTES + SECRET_BYTES:
            raise MalformedToken(f"a token is made of {ID_BYTES + SECRET_BYTES} random bytes")
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
        token = cls(raw[:ID_BYTES], raw[ID_BYTES : ID_BYTES + SECRET_BYTES])
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
