"""Signed URLs, `…?sp=`, which grant access to one file of one dataset for a limited time.

Clients of table formats send no Authorization header with requests for files. The value is URL-safe
base64 of the expiry (8 bytes, seconds), the key of the account that asked for it (32 bytes or none)
and an HMAC-SHA256 over these, kind, dataset and hash. Nothing is stored. A URL gives what its
account may read at that moment: nothing, once the account is disabled or loses its rights.

Upload tokens, which a client sends to upload a file, to download it, and to ingest it.

A token is URL-safe base64 of JSON. It is not signed, so the node looks up the owner of the upload
and does not trust the token. Source: reference node, file upload.

Temporary keys with which S3 clients read the files of one dataset, and the check of requests
signed with them.

Nothing is stored: the session token is an expiry and an account as in a signed URL, with an
HMAC-SHA256 over them and the dataset, and the secret key is an HMAC over that text. Such a key,
too, gives what its account may read at that moment.
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

import msgspec

from odf_protocol.errors import BadInput, NotFound, Refused
from odf_protocol.identity import KEY_BYTES, DatasetId
from odf_protocol.instant import NANOS
from odf_protocol.multihash import Multihash
from odf_protocol.s3.signature import TOKEN_HEADER, S3Request, SignatureClaim, signature, time_of
from odf_protocol.typed import decode_json
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.ports.values import AccountId

from .access import DatasetHidden, address
from .actors import Actor
from .dataset_access import DatasetAccess

PARAMETER = "sp"
"""Query parameter of the signature. By this name the client of Delta Sharing recognizes a signed
URL."""
MAX_CHARS = 100
_USE = b"odf-node signed url"
"""Text from which this module derives its keys from the session secrets. Each other use of the
secrets has another text."""
_EXPIRY = struct.Struct(">Q")
HEAD_BYTES = (_EXPIRY.size, _EXPIRY.size + KEY_BYTES)
"""Lengths of what stands in front of a proof, without an account and with one."""
PROOF_BYTES = 32


@dataclass(frozen=True)
class SignedUrls:
    """Makes and checks signatures of URLs. Services on one database accept each other's URLs."""

    secrets: Sequence[bytes] = field(repr=False)
    """The first secret signs; signatures of all are accepted."""
    ttl_s: int
    clock: Clock
    access: DatasetAccess

    @cached_property
    def _keys(self) -> list[bytes]:
        return [hmac.digest(secret, _USE, hashlib.sha256) for secret in self.secrets]

    def expiry(self) -> int:
        """Return when a URL that is signed now expires, in seconds since 1970."""
        return self.clock().ns // NANOS + self.ttl_s

    def signer(
        self, kind: str, dataset: DatasetId, expires_s: int, account: AccountId | None
    ) -> Callable[[str], str]:
        """Return a function that makes the query `sp=…` for the URL of a file of this kind, given
        its name. The URL is for the account, or for everybody if it is None."""
        key, head, owner = self._keys[0], _head(expires_s, account), str(dataset)

        def signed(name: str) -> str:
            return f"{PARAMETER}={_text(head + _proof(key, head, kind, owner, name))}"

        return signed

    def check(self, text: str, kind: str, dataset: DatasetId, name: Multihash) -> None:
        """Check that the signature `text` is valid for the file, and that its account may read it.

        Raises:
            DatasetHidden: it is for another file, or not by this node, or its account may not read
                the dataset now. SignedUrlExpired.
        """
        raw = _decoded(text)
        head, proof = raw[:-PROOF_BYTES], raw[-PROOF_BYTES:]
        made = [_proof(key, head, kind, str(dataset), str(name)) for key in self._keys]
        if not any(hmac.compare_digest(one, proof) for one in made):
            raise DatasetHidden
        expires_s, account = _read_head(head)
        if expires_s * NANOS <= self.clock().ns:
            raise Refused(
                "SignedUrlExpired", "this URL has expired; ask for the list of files again"
            )
        if self.access.still_readable(dataset, account) is None:
            raise DatasetHidden


def signature_of(query: bytes) -> str | None:
    """Return the signature in the query of a request; None if there is none."""
    if PARAMETER.encode() not in query:
        return None
    found = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(PARAMETER)
    return None if found is None else ",".join(found)


def _head(expires_s: int, account: AccountId | None) -> bytes:
    """Return what stands in front of a proof: until when and for whom it is."""
    return _EXPIRY.pack(expires_s) + (b"" if account is None else DatasetId.parse(account).key)


def _read_head(head: bytes) -> tuple[int, AccountId | None]:
    """Return expiry and account of a head that was proven."""
    key = head[_EXPIRY.size :]
    account = AccountId(str(DatasetId(key))) if key else None
    return _EXPIRY.unpack_from(head)[0], account


def _proof(key: bytes, head: bytes, *said: str) -> bytes:
    """Return a proof of all parts; the length of the head, of two kinds, is in it."""
    parts = "\n".join((str(len(head)), *said)).encode()
    return hmac.digest(key, head + parts, hashlib.sha256)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Decode a signature. Raises `DatasetHidden` if it is malformed."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise DatasetHidden from None
    if len(text) > MAX_CHARS or len(raw) - PROOF_BYTES not in HEAD_BYTES:
        raise DatasetHidden
    return raw


MAX_UPLOAD_TOKEN_CHARS = 8192


def invalid_upload_token() -> BadInput:
    """The text is not an upload token."""
    return BadInput("InvalidUploadToken", "Invalid upload token")


class UploadToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claims of a token. `content_length` is in bytes; `owner_account_id` has no `did:odf:`."""

    upload_id: str
    file_name: str
    owner_account_id: str
    content_length: int
    content_type: str | None = None

    @classmethod
    def parse(cls, text: str) -> UploadToken:
        """Parse a token. Raises `InvalidUploadToken`."""
        if len(text) > MAX_UPLOAD_TOKEN_CHARS or not text.isascii():
            raise invalid_upload_token()
        bare = text.rstrip("=")
        try:
            raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
            return decode_json(raw, cls)
        except (binascii.Error, msgspec.DecodeError, UnicodeError):
            raise invalid_upload_token() from None

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


ACCESS_KEY = "odf-node"
"""The access key id, the same for all clients: the session token identifies the keys."""
MAX_SKEW_S = 900
"""Largest allowed difference of the clocks of client and node, in seconds, as in S3."""
READS = ("GET", "HEAD")
_KEY_USE = b"odf-node keys of s3"
"""Text from which this module derives its keys from the session secrets. Each other use of the
secrets has another text."""


def s3_denied() -> Refused:
    """The request is not signed with keys of this node for the files of this dataset."""
    return Refused("S3Denied", "these keys do not open this; load the table again for its keys")


def s3_reads_only() -> Refused:
    """A request with an S3 signature tries to do something else than read."""
    return Refused(
        "S3ReadsOnly", "keys of S3 read the files of one dataset, and do nothing else here"
    )


def no_such_s3_key() -> NotFound:
    """The address serves nothing to S3 clients, whatever their keys."""
    return NotFound("NoSuchS3Key", "no object can be here; slices are below …/data/")


@dataclass(frozen=True, slots=True)
class S3Keys:
    """The keys with which a client signs requests. `expires_s` is in seconds since 1970."""

    secret: str = field(repr=False)
    token: str = field(repr=False)
    expires_s: int
    account: AccountId | None
    """For whom they are; None: for everybody."""


@dataclass(frozen=True)
class VendedKeys:
    """Makes and finds keys. Services on one database accept each other's keys."""

    secrets: Sequence[bytes] = field(repr=False)
    """The first secret makes keys; keys of all secrets are accepted."""
    ttl_s: int
    clock: Clock

    @cached_property
    def _keys(self) -> list[bytes]:
        return [hmac.digest(secret, _KEY_USE, hashlib.sha256) for secret in self.secrets]

    def make(self, dataset: DatasetId, account: AccountId | None) -> S3Keys:
        """Make keys for the files of a dataset, for the account, or for everybody."""
        expires_s = self.now_s + self.ttl_s
        token = _token(self._keys[0], _head(expires_s, account), dataset)
        return S3Keys(_secret(self._keys[0], token), token, expires_s, account)

    def find(self, token: str, dataset: DatasetId) -> S3Keys:
        """Return the keys of a session token. Raises `S3Denied` if it is not for the dataset."""
        try:
            head = _decoded(token)[:-PROOF_BYTES]
        except DatasetHidden:
            raise s3_denied() from None
        for key in self._keys:
            made = _token(key, head, dataset)
            if hmac.compare_digest(made.encode(), token.encode()):
                return S3Keys(_secret(key, token), token, *_read_head(head))
        raise s3_denied()

    @property
    def now_s(self) -> int:
        return self.clock().ns // NANOS


@dataclass(frozen=True)
class S3Callers:
    """Turns signed requests into actors that may read one dataset."""

    access: DatasetAccess
    keys: VendedKeys

    def identify(self, request: S3Request, account: str | None, dataset: str) -> Actor:
        """Return the actor of a signed request for a file of the dataset.

        Raises:
            MalformedS3Signature, MalformedAddress, S3ReadsOnly, S3Denied, S3KeysExpired,
            S3ClockOff.
        """
        if request.method not in READS:
            raise s3_reads_only()
        claim, time_s = SignatureClaim.of(request), time_of(request)
        entry = self.access.entries.find(address(self.access.tenancy, account, dataset))
        if entry is None:
            raise s3_denied()
        keys = self.keys.find(request.header(TOKEN_HEADER), entry.id)
        made = signature(request, claim, keys.secret)
        if not hmac.compare_digest(made, claim.signature):
            raise s3_denied()
        if keys.expires_s <= self.keys.now_s:
            raise Refused(
                "S3KeysExpired", "these keys have expired; load the table again for new ones"
            )
        if abs(time_s - self.keys.now_s) > MAX_SKEW_S:
            raise Refused(
                "S3ClockOff",
                f"the request was not signed within {MAX_SKEW_S} seconds of the node's time; "
                "set the clock of the client",
            )
        if self.access.still_readable(entry.id, keys.account) is None:
            raise s3_denied()
        add_facts(dataset=str(entry.id))
        return Actor(reads=entry.id)


def _token(key: bytes, head: bytes, dataset: DatasetId) -> str:
    return _text(head + _proof(key, head, "token", str(dataset)))


def _secret(key: bytes, token: str) -> str:
    proof = hmac.digest(key, f"secret\n{token}".encode(), hashlib.sha256)
    return base64.b64encode(proof).decode().rstrip("=")
