"""Reads an object of a bucket as a seekable file, and continues after a broken connection.

Objects never change, so a new request can continue where the last one broke off. Readers never
get less than the whole object: it is read to its end, or `StoreUnavailable` is raised.
"""

from __future__ import annotations

import io
from typing import Any

from .s3_bucket import FAILURES, Bucket, KeyMissing, PastTheEnd, StoreUnavailable

BUFFER_BYTES = 256 * 1024
READ_BYTES = 1024 * 1024
TRIES = 3
"""Number of consecutive requests that may break off without a single byte."""


def open_stream(
    bucket: Bucket, name: str, *, offset: int = 0, etag: str | None = None
) -> io.BufferedReader:
    """Open the object at `offset`; past the end it reads empty. `etag` requires that content.

    Raises:
        KeyMissing, PreconditionLost, StoreUnavailable, StoreMisconfigured.
    """
    return io.BufferedReader(_ObjectStream(bucket, name, offset, etag), BUFFER_BYTES)


class _ObjectStream(io.RawIOBase):
    """`_at` is the position of the next read, `_body_at` the position of the open response."""

    def __init__(self, bucket: Bucket, name: str, offset: int, etag: str | None) -> None:
        super().__init__()
        self._bucket, self._name, self._etag = bucket, name, etag
        self._body: Any = None
        self._at = self._body_at = offset
        self._size: int | None = None
        self._known = _bare(etag)
        self._obstore = bucket.obstore
        self._request()

    @property
    def identity(self) -> tuple[object, ...] | None:
        """Key and ETag of the object, which change when somebody overwrites the key."""
        return None if self._known is None else (self._name, self._known)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Only record the position; the next read requests it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        chunk = self._next(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._next(READ_BYTES), b""))

    def close(self) -> None:
        self._drop()
        super().close()

    def _next(self, most: int) -> bytes:
        """Return up to `most` bytes; none only at the end of the object."""
        wanted = min(most, max(0, (self._size or 0) - self._at))
        chunk = self._read(wanted) if wanted else b""
        self._at += len(chunk)
        if chunk:
            self._body_at = self._at
        return chunk

    def _read(self, wanted: int) -> bytes:
        """Return between one and `wanted` bytes, with a new request if necessary."""
        reason = "it broke off"
        for _ in range(TRIES):
            if self._body is None or self._body_at != self._at:
                self._request()
            try:
                if chunk := bytes(self._body.read(wanted)):
                    return chunk
            except FAILURES as error:
                reason = type(error).__name__
            self._obstore = None  # it may withhold bytes that arrived before the break
            self._drop()
        raise StoreUnavailable("get_object", reason)

    def _request(self) -> None:
        """Request everything from `_at` on."""
        self._drop()
        quick = None
        if self._obstore is not None:
            quick = self._obstore.get(self._name, offset=self._at, etag=self._etag)
        if quick is not None:
            self._begin(quick, quick.start, quick.size, quick.etag)
            return
        arguments: dict[str, str] = {} if self._etag is None else {"IfMatch": self._etag}
        if self._at:
            arguments["Range"] = f"bytes={self._at}-"
        try:
            answer = self._bucket.call("get_object", self._name, **arguments)
        except PastTheEnd:
            self._size = self._bucket.size(self._name)
            return
        except KeyMissing:
            if self._size is None:
                raise
            raise StoreUnavailable("get_object", "the object was removed meanwhile") from None
        start = 0
        if self._at:
            start = int(str(answer.get("ContentRange", "bytes 0")).split()[1].split("-")[0])
        size = start + int(answer["ContentLength"])
        self._begin(answer["Body"], start, size, answer.get("ETag"))

    def _begin(self, body: Any, start: int, size: int, etag: str | None) -> None:
        """Keep the response if it has the requested position and is of the same object."""
        found = _bare(etag)
        others = None not in (found, self._known) and found != self._known
        if start != self._at or self._size not in (None, size) or others:
            body.close()
            raise StoreUnavailable("get_object", "the answer is to another question")
        self._size, self._body, self._body_at = size, body, self._at
        self._known = found or self._known

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body = None


def _bare(etag: str | None) -> str | None:
    """Remove the quotes of an ETag, which only some clients keep."""
    return None if etag is None else etag.strip('"')
