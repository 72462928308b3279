"""Gzip as a stream: unpack all members in their order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from ..runtime.input_limits import CHUNK_BYTES, MalformedArchive, PrepareLimits, within

GZIP = 16 + zlib.MAX_WBITS


def gunzip(chunks: Iterable[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    """Yield the content of every member. Zeros after the last one are padding.

    Raises:
        MalformedArchive: the input is not gzip, damaged, or cut short.
        DecompressionTooLarge: the content exceeds the limits.
    """
    read = [0]
    return within(members(chunks, read), limits, read=read)


def members(chunks: Iterable[bytes], read: list[int]) -> Iterator[bytes]:
    """Yield the content of every member in chunks of limited size; the caller limits their sum.
    `read[0]` counts the packed bytes. Raises `MalformedArchive`."""
    member = None
    begun = 0
    for chunk in chunks:
        read[0] += len(chunk)
        data = chunk
        while data:
            if member is None:
                data = data.lstrip(b"\0") if begun else data
                if not data:
                    break
                member = zlib.decompressobj(GZIP)
                begun += 1
            try:
                out = member.decompress(data, CHUNK_BYTES)
            except zlib.error as bad:
                raise MalformedArchive(f"the input is no intact gzip file ({bad})") from None
            if out:
                yield out
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
    if member is not None or begun == 0:
        raise MalformedArchive("the gzip file is cut short" if begun else "the input is empty")
