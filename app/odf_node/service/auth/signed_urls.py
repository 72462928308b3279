"""Signed URLs, `…?sp=`, which grant access to one file of one dataset for a limited time.

Clients of table formats send no Authorization header with requests for files. The value is URL-safe
base64 of the expiry (8 bytes, seconds) and an HMAC-SHA256 over kind, dataset, hash and expiry.
Nothing is stored, so such a URL stays valid until it expires, even if the account that requested it
loses its rights.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qs

from odf_protocol.errors import Refused
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS
from odf_protocol.multihash import Multihash
from odf_storage.runtime.clock import Clock

from .access import DatasetHidden

PARAMETER = "sp"
"""Query parameter of the signature. By this name the client of Delta Sharing recognizes a signed
URL."""
MAX_CHARS = 100
_USE = b"odf-node signed url"
"""Text from which this module derives its keys from the session secrets. Each other use of the
secrets has another text."""
_EXPIRY = struct.Struct(">Q")


class SignedUrlExpired(Refused):
    """The node signed this URL, and it has expired."""

    def __init__(self) -> None:
        super().__init__("this URL has expired; ask for the list of files again")


@dataclass(frozen=True)
class SignedUrls:
    """Makes and checks signatures of URLs. Services on one database accept each other's URLs."""

    secrets: Sequence[bytes] = field(repr=False)
    """The first secret signs; signatures of all are accepted."""
    ttl_s: int
    clock: Clock

    @cached_property
    def _keys(self) -> list[bytes]:
        return [hmac.digest(secret, _USE, hashlib.sha256) for secret in self.secrets]

    def expiry(self) -> int:
        """Return when a URL that is signed now expires, in seconds since 1970."""
        return self.clock().ns // NANOS + self.ttl_s

    def signer(self, kind: str, dataset: DatasetId, expires_s: int) -> Callable[[str], str]:
        """Return a function that makes the query `sp=…` for the URL of a file of this kind, given
        its name."""
        key, expiry, owner = self._keys[0], _EXPIRY.pack(expires_s), str(dataset)

        def signed(name: str) -> str:
            proof = _proof(key, kind, owner, name, expiry)
            return f"{PARAMETER}={base64.urlsafe_b64encode(expiry + proof).decode().rstrip('=')}"

        return signed

    def check(self, text: str, kind: str, dataset: DatasetId, name: Multihash) -> None:
        """Check that the signature `text` is valid for the file.

        Raises:
            DatasetHidden: it is for another file, or not by this node. SignedUrlExpired.
        """
        raw = _decoded(text)
        expiry, proof = raw[: _EXPIRY.size], raw[_EXPIRY.size :]
        made = [_proof(key, kind, str(dataset), str(name), expiry) for key in self._keys]
        if not any(hmac.compare_digest(one, proof) for one in made):
            raise DatasetHidden
        if _EXPIRY.unpack(expiry)[0] * NANOS <= self.clock().ns:
            raise SignedUrlExpired


def signature_of(query: bytes) -> str | None:
    """Return the signature in the query of a request; None if there is none."""
    if PARAMETER.encode() not in query:
        return None
    found = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(PARAMETER)
    return None if found is None else ",".join(found)


def _proof(key: bytes, kind: str, dataset: str, name: str, expiry: bytes) -> bytes:
    said = "\n".join((kind, dataset, name)).encode()
    return hmac.digest(key, expiry + said, hashlib.sha256)


def _decoded(text: str) -> bytes:
    """Decode a signature. Raises `DatasetHidden` if it is malformed."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise DatasetHidden from None
    if len(text) > MAX_CHARS or len(raw) <= _EXPIRY.size:
        raise DatasetHidden
    return raw
