"""A dataset in a bucket, in the simple layout: `s3://bucket/prefix/`, `s3+http://host/bucket/prefix/`.

The client hashes objects before it stores them, so no object is stored under a wrong hash. It
moves the head by a conditional write: if two clients move it at once, one gets an error.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects.layout import HEAD, object_path, ref_path
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind

from .http import dataset_missing
from .limits import LIMITS, ClientLimits, TooMuch
from .receive import check_follows
from .repositories import parse_head

IN_MEMORY_BYTES = 8 * 1024 * 1024
MAX_ONE_PUT_BYTES = 5 * 1024**3
"""Limit of bytes that S3 accepts in one request."""
AT_ONCE = 16
_HEAD = str(ref_path(HEAD))


class BucketBusy(Conflict):
    """Another client moved the head meanwhile."""


class BucketsNeedAnExtra(BadInput):
    """The package for access to buckets is not installed."""


class BucketRepository:
    """One dataset below a prefix. boto3 finds the credentials."""

    def __init__(self, url: str, *, limits: ClientLimits = LIMITS) -> None:
        """Connect to the bucket. Raises `MalformedStoreUrl`, `BucketsNeedAnExtra`."""
        try:
            from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
        except ModuleNotFoundError as missing:
            raise BucketsNeedAnExtra(
                f"datasets in S3 need the package {missing.name}: install odf-node[s3]"
            ) from None
        self.name = url
        self._bucket = Bucket(S3Location.parse(url.rstrip("/")))
        self._limits = limits
        self._head_etag: str | None = None

    def find_head(self) -> Multihash | None:
        from odf_storage.stores.objects.s3_bucket import KeyMissing

        try:
            answer = self._bucket.call("get_object", _HEAD)
        except KeyMissing:
            self._head_etag = None
            return None
        with answer["Body"] as body:
            text = body.read(self._limits.ref_bytes + 1)
        if len(text) > self._limits.ref_bytes:
            raise TooMuch("refs/head", self._limits.ref_bytes)
        self._head_etag = str(answer["ETag"])
        return parse_head(text, self.name)

    def head(self) -> Multihash:
        found = self.find_head()
        if found is None:
            raise dataset_missing(self.name)
        return found

    def block_bytes(self, block: Multihash) -> bytes:
        limit = self._limits.block_bytes
        with self.open_object(ObjectKind.BLOCK, block) as stream:
            raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooMuch(f"block {block}", limit)
        return raw

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        from odf_storage.stores.objects.s3_bucket import KeyMissing
        from odf_storage.stores.objects.s3_stream import open_stream

        try:
            return open_stream(self._bucket, str(object_path(kind, object_hash)))
        except KeyMissing:
            raise ObjectNotFound(kind, object_hash) from None

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Compare only the size, since every object was hashed before it was stored."""
        from odf_storage.stores.objects.s3_bucket import KeyMissing

        try:
            return self._bucket.size(str(object_path(kind, object_hash))) == size
        except KeyMissing:
            return False

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> object:
        """Hash an object and store it. Raises `HashMismatch`, `TooMuch`."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as spooled:
            actual = Multihash.of_chunks(_copied(chunks, spooled))
            if actual != object_hash:
                raise HashMismatch(object_hash, actual)
            spooled.seek(0)
            self._bucket.call("put_object", str(object_path(kind, object_hash)), Body=spooled)
        return None

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        check_follows(self, new, old=old, force=force, limits=self._limits)

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        """Write the blocks, then move the head. Raises `BucketBusy`."""
        from odf_storage.stores.objects.s3_bucket import PreconditionLost

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._put_block, new))
        if self.find_head() != expected:
            raise BucketBusy(f"the head in {self.name} was moved by somebody else", at=self.name)
        only: dict[str, Any] = {"IfNoneMatch": "*"}
        if self._head_etag is not None:
            only = {"IfMatch": self._head_etag}
        try:
            self._bucket.call(
                "put_object",
                _HEAD,
                Body=str(new[-1].hash).encode(),
                ContentType="text/plain; charset=utf-8",
                **only,
            )
        except PreconditionLost:
            raise BucketBusy(
                f"the head in {self.name} was moved by somebody else", at=self.name
            ) from None

    def _put_block(self, block: HashedBlock) -> None:
        name = str(object_path(ObjectKind.BLOCK, block.hash))
        self._bucket.call("put_object", name, Body=io.BytesIO(block.raw))

    def locked(self) -> AbstractContextManager[None]:
        """Return a context without a lock: the conditional write of the head detects conflicts."""
        return nullcontext()


def _copied(chunks: Iterable[bytes], sink: Any) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_ONE_PUT_BYTES:
            raise TooMuch("an object", MAX_ONE_PUT_BYTES)
        sink.write(chunk)
        yield chunk
