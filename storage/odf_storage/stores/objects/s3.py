"""Object store in an S3 bucket, which is itself a repository for the simple protocol.

    <prefix>/
    ├─ fed01…/{blocks,data,checkpoints,refs,info}/…   a dataset, in the layout of ODF
    ├─ .spooled/fed01…/f1620…                         spooled request bodies
    ├─ .staging/fed01…/<kind>/f1620…/<random>         put by presigned URL, not yet verified
    ├─ .exchange/…                                    files for Spark's executors
    ├─ .quarantine/fed01…/<kind>/f1620…               damaged objects, for inspection by a person
    └─ .renewed, .condemned/fed01…/<kind>/f1620…      empty marks, see `s3_age.py`

No object appears under its key before its hash is verified. The node hashes what passes through
it, and then makes it visible by a conditional write, in one request or as a multipart upload. What
clients put by URL stays in `.staging` until `settle` has read it. An upload URL allows only one
write: the write requires that its key is free, and `settle` leaves an empty object under the key.
Slices in `.exchange` were hashed by the executor that wrote them (`put_copy`).
"""

from __future__ import annotations

import builtins
import hashlib
import logging
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import Any, BinaryIO

from odf_protocol.errors import BadInput, LimitExceeded, NodeError
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import SHA3_256, HashMismatch, Multihash

from ...runtime.clock import Clock, system_clock
from ...runtime.logs import line
from ..ports import LocalPaths, PartialUploads
from ..ports.errors import ObjectNotFound
from ..ports.values import (
    BucketPlace,
    ObjectInfo,
    ObjectKey,
    ObjectKind,
    StoredFile,
    TransferUrl,
)
from .layout import (
    ALIAS,
    EXCHANGE,
    MAX_INFO_BYTES,
    SPOOLED,
    bucket_folder,
    bucket_name,
    dataset_folder,
    info_path,
    object_name,
    parse_folder,
    parse_object_name,
    ref_path,
)
from .s3_age import CONDEMNED, RENEWED, Ages
from .s3_bucket import Bucket, KeyMissing, PreconditionLost, StoreUnavailable, UploadGone
from .s3_obstore import FoundObject
from .s3_stream import READ_BYTES, open_stream
from .side_by_side import SideBySide

STAGING = ".staging"
QUARANTINE = ".quarantine"
PART_BYTES = 16 * 1024 * 1024
"""Size in bytes of the largest object written in one request, and of the parts of larger ones."""
MAX_PARTS = 10_000
MAX_ONE_PUT_BYTES = 5 * 1024**3
"""Size in bytes of the largest object that the server accepts, or copies, in one request."""
MAX_TTL = timedelta(hours=12)
"""Longest lifetime of a URL; longer requested lifetimes are cut to it."""
ABANDONED_AFTER = timedelta(days=1)
"""Age at which staged objects and unfinished uploads are abandoned; must exceed `MAX_TTL`."""
PARALLEL_PUTS, PUTS_AT_A_TIME = 8, 1000
"""Limits of concurrent requests, and of blocks in memory, while many blocks are put."""
CREATE_TRIES, CREATE_PAUSE_S = 5, 0.2
"""Tries, and seconds between them, to put an object whose removal is in progress."""


_log = logging.getLogger("odf.integrity")


def object_beyond_store() -> LimitExceeded:
    """The object needs more parts than S3 accepts. The limit is in bytes."""
    limit = PART_BYTES * MAX_PARTS
    return LimitExceeded(
        "ObjectBeyondStore", f"objects in S3 have at most {limit} bytes here", limit=limit
    )


class S3ObjectStore:
    """`ObjectStore` in a bucket. Several processes may share the bucket."""

    local_paths: LocalPaths | None = None
    partial: PartialUploads | None = None
    """None: clients upload whole objects by URL, because S3 does not show parts of an upload."""

    def __init__(self, bucket: Bucket, *, clock: Clock = system_clock) -> None:
        self.bucket = bucket
        self.ages = Ages(bucket, clock=clock)
        self._clock = clock
        self._beside = SideBySide(PARALLEL_PUTS, "s3-put")

    def close(self) -> None:
        """End the threads that put objects; the next put starts new ones."""
        self._beside.close()

    def stat(self, key: ObjectKey) -> ObjectInfo | None:
        try:
            found = self.bucket.stat(bucket_name(key))
            return ObjectInfo(key, found.size, Instant.from_datetime(found.modified))
        except KeyMissing:
            return None

    def open(self, key: ObjectKey, *, offset: int = 0) -> BinaryIO:
        try:
            return open_stream(self.bucket, bucket_name(key), offset=offset)
        except KeyMissing:
            raise ObjectNotFound(key.kind, key.hash) from None

    def put(self, key: ObjectKey, chunks: Iterable[bytes]) -> ObjectInfo:
        content = _Hashing(chunks)
        parts = _parts(content)
        first = next(parts, b"")
        second = next(parts, None)
        if second is None:
            content.check(key.hash)
            self._create(key, first)
        elif self._has_whole(key):
            content.exhaust().check(key.hash)
        else:
            self._put_parts(key, content, _chain(first, second, parts))
        return ObjectInfo(key, content.size)

    def put_copy(self, key: ObjectKey, file: StoredFile) -> None:
        """As `put` of a file that is in the bucket: the server copies it, and this process does not
        read it. Its writer has hashed it, and the server has checked what it wrote.

        Raises:
            HashMismatch: its writer had another hash than the key.
            KeyMissing, PreconditionLost: the file is gone, or has changed since it was written.
        """
        if file.hash != key.hash:
            raise HashMismatch(key.hash, file.hash)
        try:
            self._copy_to(key, file.name, file.etag)
        except PreconditionLost:
            if not self._has_whole(key):
                raise

    def put_blocks(self, dataset: DatasetId, blocks: Iterable[tuple[Multihash, bytes]]) -> None:
        keyed = ((ObjectKey(dataset, ObjectKind.BLOCK, name), raw) for name, raw in blocks)
        while some := list(islice(keyed, PUTS_AT_A_TIME)):
            self._beside.do(lambda one: self.put(one[0], (one[1],)), some)

    def put_all(self, objects: Sequence[tuple[ObjectKey, bytes]]) -> None:
        for _, alike in groupby(objects, lambda one: one[0].kind):
            self._beside.do(lambda one: self.put(one[0], (one[1],)), alike)

    def delete(self, key: ObjectKey) -> None:
        self.bucket.call("delete_object", bucket_name(key))

    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]:
        for kind in ObjectKind:
            folder = bucket_folder(dataset, kind)
            for found in self.bucket.walk_folder(folder):
                key = parse_object_name(dataset, kind, found.name.removeprefix(f"{folder}/"))
                if key is not None:
                    yield ObjectInfo(key, found.size, Instant.from_datetime(found.modified))

    def datasets(self) -> Iterator[DatasetId]:
        seen: set[DatasetId] = set()
        for folder in ("", f"{SPOOLED}/"):
            for name in self.bucket.folders(folder):
                dataset = parse_folder(name)
                if dataset is None or dataset in seen:
                    continue
                if next(self.bucket.walk(f"{folder}{name}/"), None) is not None:  # no empty folder
                    seen.add(dataset)
                    yield dataset

    def renew(self, key: ObjectKey) -> ObjectInfo | None:
        info = self.stat(key)
        if info is None or self.ages.is_young(info):
            return info
        return self.stat(key) if self.ages.renew(_below(key)) else None

    def discard(self, key: ObjectKey, *, before: Instant) -> bool:
        info = self.stat(key)
        if info is None or info.modified is None or info.modified >= before:
            return False
        return self.ages.discard(_below(key), bucket_name(key), before)

    def quarantine(self, key: ObjectKey) -> bool:
        """Copy the object, then remove it. Above `MAX_ONE_PUT_BYTES` no copy is kept."""
        info = self.stat(key)
        if info is None:
            return False
        if info.size <= MAX_ONE_PUT_BYTES:
            aside = f"{QUARANTINE}/{_below(key)}"
            self.bucket.call("copy_object", aside, CopySource=self.bucket.source(bucket_name(key)))
        self.delete(key)
        return True

    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None:
        """Return a presigned GET of the object, without checking that the object exists."""
        ttl = min(ttl, MAX_TTL)
        url = self.bucket.presign("get_object", bucket_name(key), ttl)
        return TransferUrl(url, expires_at=self._after(ttl))

    def upload_url(self, key: ObjectKey, *, size: int | None, ttl: timedelta) -> TransferUrl | None:
        """Return a presigned PUT of exactly `size` bytes to a key that no other URL has.

        None, so that clients go through the node, if the size is unknown or too large.
        """
        if size is None or size > MAX_ONE_PUT_BYTES:
            return None
        ttl = min(ttl, MAX_TTL)
        name = _unverified_prefix(key) + secrets.token_hex(16)
        url = self.bucket.presign("put_object", name, ttl, ContentLength=size, IfNoneMatch="*")
        return TransferUrl(url, (("if-none-match", "*"),), self._after(ttl))

    def copy_source(self, key: ObjectKey) -> BucketPlace | None:
        its = self.bucket.location
        return BucketPlace(its.endpoint, its.bucket, its.prefix + bucket_name(key))

    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        """As `renew`, but first read, hash and move to its key what a client put by URL."""
        info, wrong = self.renew(key), None
        if info is not None:
            return info
        for unverified in self.bucket.walk(_unverified_prefix(key)):
            try:
                return self._promote(key, unverified)
            except HashMismatch as mismatch:
                wrong = mismatch if unverified.size else wrong
        if wrong is not None:
            raise wrong
        return None

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        self._write_text(f"{dataset_folder(dataset)}/{ref_path(ref)}", str(head))

    def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
        self._beside.do(lambda one: self.write_ref(one[0], ref, one[1]), heads.items())

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        """Return the hash; None if it is absent or not the text of a hash."""
        text = self._read_text(f"{dataset_folder(dataset)}/{ref_path(ref)}")
        try:
            return None if text is None else Multihash.parse(text)
        except BadInput:
            return None

    def remove_ref(self, dataset: DatasetId, ref: str) -> None:
        self.bucket.call("delete_object", f"{dataset_folder(dataset)}/{ref_path(ref)}")

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        self.write_info(dataset, ALIAS, str(alias))

    def read_alias(self, dataset: DatasetId) -> DatasetAlias | None:
        text = self.read_info(dataset, ALIAS)
        try:
            return None if text is None else DatasetAlias.parse(text)
        except BadInput:
            return None

    def write_info(self, dataset: DatasetId, name: str, text: str) -> None:
        self._write_text(f"{dataset_folder(dataset)}/{info_path(name)}", text)

    def read_info(self, dataset: DatasetId, name: str) -> str | None:
        return self._read_text(f"{dataset_folder(dataset)}/{info_path(name)}")

    def remove(self, dataset: DatasetId) -> None:
        folder = dataset_folder(dataset)
        for start in (f"{folder}/refs/", f"{folder}/", f"{SPOOLED}/{folder}/"):
            self.bucket.delete_below(start)
        for place in (STAGING, RENEWED, CONDEMNED):
            self.bucket.delete_below(f"{place}/{folder}/")

    def remove_abandoned(
        self,
        *,
        before: Instant | None = None,
        dry_run: bool = False,
        now: datetime | None = None,
    ) -> int:
        """Remove staged objects and multipart uploads at least a day old; return their number.

        Old marks are removed too, but not counted.
        """
        limit, removed = (now or datetime.now(UTC)) - ABANDONED_AFTER, 0
        limit = limit if before is None else min(limit, before.to_datetime())
        for place in (STAGING, EXCHANGE, RENEWED, CONDEMNED):
            for left in self.bucket.walk(f"{place}/"):
                if left.modified < limit:
                    removed += place in (STAGING, EXCHANGE)
                    if not dry_run:
                        self.bucket.call("delete_object", left.name)
        return removed + self._abort_uploads(limit, dry_run=dry_run)

    def _abort_uploads(self, limit: datetime, *, dry_run: bool) -> int:
        removed = 0
        prefix = self.bucket.location.prefix
        answer = self.bucket.call("list_multipart_uploads", Prefix=prefix)
        for upload in answer.get("Uploads", ()):  # further pages are left to the next call
            if upload["Initiated"] < limit:
                removed += 1
                if not dry_run:
                    self._abort(str(upload["Key"]).removeprefix(prefix), upload["UploadId"])
        return removed

    # --- writing ----------------------------------------------------------------------------

    def _has_whole(self, key: ObjectKey) -> bool:
        """Return whether the object exists with the right bytes, and renew it.

        A damaged object is moved to the quarantine, so that the right bytes can be put.
        """
        if self.stat(key) is None:
            return False
        try:
            with open_stream(self.bucket, bucket_name(key)) as stream:
                pieces = iter(lambda: stream.read(READ_BYTES), b"")
                if key.hash == Multihash.of_chunks(pieces):
                    return self.renew(key) is not None
        except KeyMissing:  # removed meanwhile
            return False
        _log.error(line("damaged object replaced", object=bucket_name(key)))
        self.quarantine(key)
        return False

    def _create(self, key: ObjectKey, content: bytes) -> None:
        """Write the object; if it exists, renew it. A damaged one is quarantined and replaced."""
        for _ in range(CREATE_TRIES):
            try:
                self.bucket.create(bucket_name(key), content)
                return
            except PreconditionLost:
                if self._has_whole(key):
                    return
            time.sleep(CREATE_PAUSE_S)  # the object is being removed right now
        raise StoreUnavailable("put_object", "the object is being removed")

    def _put_parts(self, key: ObjectKey, content: _Hashing, parts: Iterator[bytes]) -> None:
        """Write a multipart upload; complete it only after the hash of all parts is verified."""
        name = bucket_name(key)
        upload = self.bucket.call("create_multipart_upload", name)["UploadId"]
        try:
            sent = []
            for number, part in enumerate(parts, 1):
                if number > MAX_PARTS:
                    raise object_beyond_store()
                answer = self.bucket.call(
                    "upload_part", name, UploadId=upload, PartNumber=number, Body=part
                )
                sent.append({"PartNumber": number, "ETag": answer["ETag"]})
            content.check(key.hash)
            self._complete(key, upload, sent)
        except BaseException:
            self._abort(name, upload)
            raise

    def _complete(self, key: ObjectKey, upload: str, sent: builtins.list[dict[str, Any]]) -> None:
        """Combine the parts into an object, unless another writer or earlier try has done so."""
        operation = "complete_multipart_upload"
        parts, name = {"Parts": sent}, bucket_name(key)
        try:
            self.bucket.call(
                operation, name, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*"
            )
        except (PreconditionLost, UploadGone):
            if self.renew(key) is None:
                raise StoreUnavailable(operation, "the upload is gone") from None
            self._abort(name, upload)

    def _abort(self, name: str, upload: str) -> None:
        with suppress(NodeError):
            self.bucket.call("abort_multipart_upload", name, UploadId=upload)

    def _promote(self, key: ObjectKey, unverified: FoundObject) -> ObjectInfo:
        """Hash the staged content, copy exactly that content, and always invalidate the URL."""
        content = _Hashing(_chunks(self.bucket, unverified))
        try:
            content.exhaust().check(key.hash)
            self._copy(unverified, key)
        except HashMismatch:
            self._spend(unverified)
            raise
        self._spend(unverified)
        return ObjectInfo(key, content.size)

    def _copy(self, unverified: FoundObject, key: ObjectKey) -> None:
        with suppress(PreconditionLost):
            self._copy_to(key, unverified.name, unverified.etag)
            return
        # either the object exists already, or the staged content was replaced meanwhile
        if self.renew(key) is None:
            raise StoreUnavailable("copy_object", "the upload changed meanwhile")

    def _copy_to(self, key: ObjectKey, name: str, etag: str) -> None:
        """Raise `PreconditionLost` if the object exists, or the source is another version."""
        self.bucket.call(
            "copy_object",
            bucket_name(key),
            CopySource=self.bucket.source(name),
            CopySourceIfMatch=etag,
            IfNoneMatch="*",
        )

    def _spend(self, unverified: FoundObject) -> None:
        """Replace the staged upload by an empty object, so that its key stays taken."""
        if unverified.size:
            self.bucket.call("put_object", unverified.name, Body=b"")

    # --- small texts ------------------------------------------------------------------------

    def _write_text(self, name: str, text: str) -> None:
        self.bucket.call("put_object", name, Body=text.encode(), ContentType="text/plain")

    def _read_text(self, name: str) -> str | None:
        try:
            with open_stream(self.bucket, name) as stream:
                return stream.read(MAX_INFO_BYTES).decode("utf-8", "replace").strip()
        except KeyMissing:
            return None

    def _after(self, ttl: timedelta) -> Instant:
        return Instant(self._clock().ns + int(ttl.total_seconds()) * NANOS)


class _Hashing:
    """Counts and hashes chunks while they pass through."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.size = 0
        self._state = hashlib.sha3_256()
        self._chunks = iter(chunks)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._state.update(chunk)
            self.size += len(chunk)
            yield chunk

    def exhaust(self) -> _Hashing:
        """Read the remaining chunks without keeping them."""
        for _ in self:
            pass
        return self

    def check(self, expected: Multihash) -> None:
        """Raise `HashMismatch` unless all chunks hash to `expected`."""
        actual = Multihash(SHA3_256, self._state.digest())
        if actual != expected:
            raise HashMismatch(expected, actual)


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `PART_BYTES`; the last one may be shorter."""
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= PART_BYTES:
            yield bytes(pending[:PART_BYTES])
            del pending[:PART_BYTES]
    if pending:
        yield bytes(pending)


def _chain(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest


def _chunks(bucket: Bucket, unverified: FoundObject) -> Iterator[bytes]:
    with open_stream(bucket, unverified.name, etag=unverified.etag) as stream:
        while chunk := stream.read(READ_BYTES):
            yield chunk


# --- names below the prefix -----------------------------------------------------------------


def _unverified_prefix(key: ObjectKey) -> str:
    return f"{STAGING}/{_below(key)}/"


def _below(key: ObjectKey) -> str:
    """Return the object's path below `.staging` and the other special folders."""
    return f"{dataset_folder(key.dataset)}/{key.kind}/{object_name(key)}"
