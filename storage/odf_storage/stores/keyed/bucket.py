"""A keyed store in an S3 bucket, below a prefix.

A swap is a conditional write. If the service ignores the condition, concurrent swaps all succeed;
with such a service the caller must hold a lock.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from odf_protocol.instant import Instant

from ..objects.s3_bucket import (
    DELETE_BATCH,
    FAILURES,
    Bucket,
    KeyMissing,
    PreconditionLost,
    translate,
)
from ..objects.s3_stream import READ_BYTES, open_stream
from ..ports.errors import KeyedFileTooLarge, KeyNotFound, SwapLost
from ..ports.keyed import KeyedContent, KeyInfo, LinkSource

SPOOL_BYTES = 16 << 20
"""Files up to this size are kept in memory while they are written."""


class BucketKeyedStore:
    """`KeyedStore` in a bucket. Safe to use from several threads."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def read(self, key: str, *, most: int) -> KeyedContent | None:
        try:
            answer = self._bucket.call("get_object", key)
        except KeyMissing:
            return None
        with answer["Body"] as body:
            if int(answer["ContentLength"]) > most:
                raise KeyedFileTooLarge(key, most)
            try:
                raw: bytes = body.read()
            except FAILURES as error:
                translate("get_object", error)
        return KeyedContent(raw, answer["ETag"], Instant.from_datetime(answer["LastModified"]))

    def open(self, key: str) -> BinaryIO:
        try:
            return open_stream(self._bucket, key)
        except KeyMissing:
            raise KeyNotFound(key) from None

    def list(self, folder: str) -> Iterator[KeyInfo]:
        for found in self._bucket.walk(f"{folder}/"):
            yield KeyInfo(found.name, found.size, Instant.from_datetime(found.modified))

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            for chunk in chunks:
                spool.write(chunk)
            spool.seek(0)
            self._bucket.call("put_object", key, Body=spool)

    def link(self, key: str, source: LinkSource) -> None:
        place, its = source.place, self._bucket.location
        if place is not None and place.endpoint == its.endpoint:
            copied = {"Bucket": place.bucket, "Key": place.key}
            self._bucket.call("copy_object", key, CopySource=copied)
            return
        with source.open() as stream:
            self.put(key, iter(lambda: stream.read(READ_BYTES), b""))

    def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
        condition: dict[str, Any] = (
            {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}
        )
        try:
            answer = self._bucket.call("put_object", key, Body=content, **condition)
        except (PreconditionLost, KeyMissing):
            raise SwapLost(key) from None
        return str(answer["ETag"])

    def delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), DELETE_BATCH):
            self._bucket.delete(list(keys[start : start + DELETE_BATCH]))
