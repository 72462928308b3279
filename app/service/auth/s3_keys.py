"""Keys of S3 clients for the files of one dataset, for a while; and who signs with them.

Nothing is stored: the session token is an expiry (8 bytes, seconds) with an HMAC-SHA256 over it and
the dataset, in URL-safe base64, and the secret key is an HMAC over that text. Like a signed URL,
such a key opens what it was made for until it expires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from odf_node.protocol.errors import NotFound, Refused
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import NANOS
from odf_node.protocol.s3.signature import TOKEN_HEADER, Claim, S3Request, signature, time_of
from odf_node.storage.runtime.clock import Clock
from odf_node.storage.runtime.context import add_facts

from .access import address
from .actors import Actor
from .dataset_access import DatasetAccess

ACCESS_KEY = "odf-node"
"""The same for everybody: the session token says which key it is."""
MAX_SKEW_S = 900
"""How far the clocks of client and node may be apart, as in S3."""
READS = ("GET", "HEAD")
_USE = b"odf-node keys of s3"
"""What the secret of sessions is used for here; other uses have other texts."""
_EXPIRY = struct.Struct(">Q")


class S3Denied(Refused):
    """No key of this node for these files, or signed with another secret."""

    def __init__(self) -> None:
        super().__init__("these keys do not open this; load the table again for its keys")


class S3KeysExpired(Refused):
    """The keys were made by this node, and their time is over."""

    def __init__(self) -> None:
        super().__init__("these keys have expired; load the table again for new ones")


class S3ClockOff(Refused):
    """A request that was signed long ago, or will be."""

    def __init__(self) -> None:
        super().__init__(
            f"the request was not signed within {MAX_SKEW_S} seconds of the node's time; "
            "set the clock of the client"
        )


class S3ReadsOnly(Refused):
    """Keys are for reading the files of a dataset."""

    def __init__(self) -> None:
        super().__init__("keys of S3 read the files of one dataset, and do nothing else here")


class NoSuchS3Key(NotFound):
    """Where S3 clients are served nothing, whoever they are."""

    def __init__(self) -> None:
        super().__init__("no object can be here; slices are below …/data/")


@dataclass(frozen=True, slots=True)
class S3Keys:
    """What a client signs with."""

    secret: str = field(repr=False)
    token: str = field(repr=False)
    expires_s: int


@dataclass(frozen=True)
class VendedKeys:
    """Makes and finds keys. Services on one database find each other's."""

    secrets: Sequence[bytes] = field(repr=False)
    """The first makes keys, all are taken."""
    ttl_s: int
    clock: Clock

    @cached_property
    def _keys(self) -> list[bytes]:
        return [hmac.digest(secret, _USE, hashlib.sha256) for secret in self.secrets]

    def make(self, dataset: DatasetId) -> S3Keys:
        """Keys for the files of a dataset."""
        expires_s = self.now_s + self.ttl_s
        token = _token(self._keys[0], dataset, expires_s)
        return S3Keys(_secret(self._keys[0], token), token, expires_s)

    def find(self, token: str, dataset: DatasetId) -> S3Keys:
        """The keys with this token. Raises `S3Denied`: none that opens the dataset."""
        try:
            (expires_s,) = _EXPIRY.unpack_from(base64.urlsafe_b64decode(token[:12]))
        except (ValueError, struct.error):
            raise S3Denied from None
        for key in self._keys:
            made = _token(key, dataset, expires_s)
            if hmac.compare_digest(made.encode(), token.encode()):
                return S3Keys(_secret(key, token), token, expires_s)
        raise S3Denied

    @property
    def now_s(self) -> int:
        return self.clock().ns // NANOS


@dataclass(frozen=True)
class S3Callers:
    """Turns signed requests into actors who may read one dataset."""

    access: DatasetAccess
    keys: VendedKeys

    def identify(self, request: S3Request, account: str | None, dataset: str) -> Actor:
        """Who asks for a file of the dataset of an address.

        Raises:
            MalformedS3Signature, MalformedAddress, S3ReadsOnly, S3Denied, S3KeysExpired,
            S3ClockOff.
        """
        if request.method not in READS:
            raise S3ReadsOnly
        claim, time_s = Claim.of(request), time_of(request)
        entry = self.access.entries.find(address(self.access.tenancy, account, dataset))
        if entry is None:
            raise S3Denied
        keys = self.keys.find(request.header(TOKEN_HEADER), entry.id)
        made = signature(request, claim, keys.secret)
        if not hmac.compare_digest(made, claim.signature):
            raise S3Denied
        if keys.expires_s <= self.keys.now_s:
            raise S3KeysExpired
        if abs(time_s - self.keys.now_s) > MAX_SKEW_S:
            raise S3ClockOff
        add_facts(dataset=str(entry.id))
        return Actor(reads=entry.id)


def _token(key: bytes, dataset: DatasetId, expires_s: int) -> str:
    expiry = _EXPIRY.pack(expires_s)
    proof = hmac.digest(key, expiry + f"token\n{dataset}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(expiry + proof).decode().rstrip("=")


def _secret(key: bytes, token: str) -> str:
    proof = hmac.digest(key, f"secret\n{token}".encode(), hashlib.sha256)
    return base64.b64encode(proof).decode().rstrip("=")
