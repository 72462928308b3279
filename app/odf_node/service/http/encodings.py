"""Compressed bodies (`Content-Encoding`), unpacked piece by piece and bounded in size."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from odf_protocol.errors import BadInput, LimitExceeded

from .bodies import LIMIT, BodyTooLong

PIECE_BYTES = 1024 * 1024
FREE_BYTES = 16 * 1024 * 1024
"""Size in bytes up to which the ratio of a body is not checked, because short texts may compress
very well."""


class UnsupportedEncoding(BadInput):
    """The node does not support this Content-Encoding."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"bodies are taken as they are, or in one of {', '.join(ENCODINGS)}; "
            f"not in {given[:50]!r}",
            given=given[:50],
            known=list(ENCODINGS),
        )


class MalformedEncoding(BadInput):
    """A body is not in the encoding that its header names, or ends too early."""


class UnpackedTooFar(LimitExceeded):
    """An unpacked body is too many times larger than the bytes that were sent."""

    def __init__(self, ratio: int) -> None:
        super().__init__(
            f"the body is more than {ratio} times larger than what was sent",
            limit="max_unpacked_ratio",
            value=ratio,
            setting="ODF_NODE_MAX_UNPACKED_RATIO",
        )


class _Inflater(Protocol):
    """The interface of a `zlib` decompressor, which returns output in bounded pieces."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


Unpack = Callable[[Iterable[bytes]], Iterator[bytes]]


def decoded(chunks: Iterable[bytes], encoding: str, *, limit: int, ratio: int) -> Iterable[bytes]:
    """Return the unpacked body. `encoding` is the value of `Content-Encoding`, `limit` is in
    bytes, `ratio` is the largest allowed ratio of unpacked to sent bytes.

    Raises:
        UnsupportedEncoding: at the call. MalformedEncoding, BodyTooLong, UnpackedTooFar: while
            the body is read.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return chunks
    if name not in ENCODINGS:
        raise UnsupportedEncoding(name)
    return _bounded(ENCODINGS[name], chunks, limit, ratio)


def _bounded(unpack: Unpack, chunks: Iterable[bytes], limit: int, ratio: int) -> Iterator[bytes]:
    sent = given = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for chunk in chunks:
            sent += len(chunk)
            yield chunk

    for piece in unpack(counted()):
        given += len(piece)
        if given > limit:
            raise BodyTooLong(limit, LIMIT)
        if given > max(FREE_BYTES, sent * ratio):
            raise UnpackedTooFar(ratio)
        yield piece


def _inflated(start: Callable[[bytes], _Inflater]) -> Unpack:
    """Return a function that unpacks with `zlib`. A body may consist of several packed parts."""

    def unpack(chunks: Iterable[bytes]) -> Iterator[bytes]:
        inflater: _Inflater | None = None
        try:
            for chunk in chunks:
                rest = chunk
                while rest:
                    inflater = start(rest) if inflater is None or inflater.eof else inflater
                    yield from _drained(inflater, rest)
                    rest = inflater.unused_data
        except zlib.error as broken:
            raise MalformedEncoding(f"the body cannot be unpacked: {broken}") from None
        if inflater is not None and not inflater.eof:
            raise MalformedEncoding("the packed body ends too early")

    return unpack


def _drained(inflater: _Inflater, data: bytes) -> Iterator[bytes]:
    """Yield all output for the data, in bounded pieces."""
    while True:
        piece = inflater.decompress(data, PIECE_BYTES)
        data = inflater.unconsumed_tail
        if piece:
            yield piece
        if inflater.eof or (not data and len(piece) < PIECE_BYTES):
            return


def _gzip(_: bytes) -> _Inflater:
    return zlib.decompressobj(wbits=31)


def _deflate(head: bytes) -> _Inflater:
    """Start unpacking with a zlib header, as the standard requires, or without one, as some
    clients send it."""
    has_header = head[0] & 0x0F == 8 and (len(head) < 2 or (head[0] * 256 + head[1]) % 31 == 0)
    return zlib.decompressobj(wbits=15 if has_header else -15)


def _zstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    import pyarrow as pa  # imported late because it is slow; it contains the decoder

    source = _Stream(chunks)
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd") as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece
    except OSError as broken:
        raise MalformedEncoding(f"the body cannot be unpacked: {str(broken)[:200]}") from None


class _Stream(io.RawIOBase):
    """Chunks as a readable file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = chunk
        end = len(self._rest) if size is None or size < 0 else size
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece

    def readinto(self, into: Any) -> int:
        piece = self.read(len(into))
        into[: len(piece)] = piece
        return len(piece)


ENCODINGS: dict[str, Unpack] = {
    "gzip": _inflated(_gzip),
    "x-gzip": _inflated(_gzip),
    "deflate": _inflated(_deflate),
    "zstd": _zstd,
}
"""Functions that unpack bodies, by the name of the encoding in HTTP."""
