"""URLs that carry the right to one file of one dataset for a while: `…?sp=`, signed by the node.

Clients of table formats send no header to the URLs of files. The text is URL-safe base64 of the
expiry (8 bytes, seconds) and an HMAC-SHA256 over kind, dataset, hash and expiry. Nothing is stored,
so such a URL stays a key until it expires, whatever happens to the right it was made by.
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

from odf_node.protocol.errors import Refused
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import NANOS
from odf_node.protocol.multihash import Multihash
from odf_node.storage.runtime.clock import Clock

from .access import DatasetHidden

PARAMETER = "sp"
"""One of the names by which the client of Delta Sharing knows a URL as signed."""
MAX_CHARS = 100
_USE = b"odf-node signed url"
"""What the secret of sessions is used for here; sessions have another text."""
_EXPIRY = struct.Struct(">Q")


class SignedUrlExpired(Refused):
    """The URL was signed by this node, and its time is over."""

    def __init__(self) -> None:
        super().__init__("this URL has expired; ask for the list of files again")


@dataclass(frozen=True)
class SignedUrls:
    """Makes and checks what a URL carries. Services on one database check each other's."""

    secrets: Sequence[bytes] = field(repr=False)
    """The first signs, all are taken."""
    ttl_s: int
    clock: Clock

    @cached_property
    def _keys(self) -> list[bytes]:
        return [hmac.digest(secret, _USE, hashlib.sha256) for secret in self.secrets]

    def expiry(self) -> int:
        """When a URL made now expires, in seconds since 1970."""
        return self.clock().ns // NANOS + self.ttl_s

    def signer(self, kind: str, dataset: DatasetId, expires_s: int) -> Callable[[str], str]:
        """Makes the query of the URL of a file of this kind by its name: `sp=…`."""
        key, expiry, owner = self._keys[0], _EXPIRY.pack(expires_s), str(dataset)

        def signed(name: str) -> str:
            proof = _proof(key, kind, owner, name, expiry)
            return f"{PARAMETER}={base64.urlsafe_b64encode(expiry + proof).decode().rstrip('=')}"

        return signed

    def check(self, text: str, kind: str, dataset: DatasetId, name: Multihash) -> None:
        """Whether the text opens that file.

        Raises:
            DatasetHidden: it was made for another file, or by nobody here. SignedUrlExpired.
        """
        raw = _decoded(text)
        expiry, proof = raw[: _EXPIRY.size], raw[_EXPIRY.size :]
        made = [_proof(key, kind, str(dataset), str(name), expiry) for key in self._keys]
        if not any(hmac.compare_digest(one, proof) for one in made):
            raise DatasetHidden
        if _EXPIRY.unpack(expiry)[0] * NANOS <= self.clock().ns:
            raise SignedUrlExpired


def signature_of(query: bytes) -> str | None:
    """What the query of a request carries; None: it does not claim to be signed."""
    if PARAMETER.encode() not in query:
        return None
    found = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(PARAMETER)
    return None if found is None else ",".join(found)


def _proof(key: bytes, kind: str, dataset: str, name: str, expiry: bytes) -> bytes:
    said = "\n".join((kind, dataset, name)).encode()
    return hmac.digest(key, expiry + said, hashlib.sha256)


def _decoded(text: str) -> bytes:
    """Raises `DatasetHidden`: no text that this module writes."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise DatasetHidden from None
    if len(text) > MAX_CHARS or len(raw) <= _EXPIRY.size:
        raise DatasetHidden
    return raw
