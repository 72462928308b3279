"""Bzip2 and zstd as streams: unpack all of their parts in order."""

from __future__ import annotations

import bz2
import io
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ..runtime.input_limits import CHUNK_BYTES, MalformedArchive, PrepareLimits, within


def bunzip2(chunks: Iterable[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    """Unpack bzip2. Raises `MalformedArchive`, `DecompressionTooLarge`."""
    read = [0]
    return within(_bunzipped(_counted(chunks, read)), limits, read=read)


def unzstd(chunks: Iterable[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    """Unpack zstd. Raises `MalformedArchive`, `DecompressionTooLarge`."""
    read = [0]
    return within(_unzstd(_counted(chunks, read)), limits, read=read)


def _counted(chunks: Iterable[bytes], read: list[int]) -> Iterator[bytes]:
    for chunk in chunks:
        read[0] += len(chunk)
        yield chunk


def _bunzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    stream, has_begun = bz2.BZ2Decompressor(), False
    for chunk in chunks:
        data = chunk
        while data or not stream.needs_input:
            if stream.eof:
                data = stream.unused_data + data
                stream, has_begun = bz2.BZ2Decompressor(), False
                if not data:
                    break
            try:
                out = stream.decompress(data, CHUNK_BYTES)
            except (OSError, ValueError) as bad:
                raise MalformedArchive(f"the input is no intact bzip2 file ({bad})") from None
            data, has_begun = b"", True
            if out:
                yield out
    if not stream.eof and has_begun:
        raise MalformedArchive("the bzip2 file is cut short")


def _unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        with pa.CompressedInputStream(pa.PythonFile(_Chunks(chunks), "r"), "zstd") as stream:
            while out := stream.read(CHUNK_BYTES):
                yield out
    except (pa.ArrowException, OSError) as bad:
        raise MalformedArchive(f"the input is no intact zstd file ({str(bad)[:200]})") from None


class _Chunks(io.RawIOBase):
    """Presents chunks as a file that can be read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        wanted = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:wanted], self._rest[wanted:]
        return piece
