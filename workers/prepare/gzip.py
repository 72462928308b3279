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
    return within(_members(chunks, read), limits, read=read)


def _members(chunks: Iterable[bytes], read: list[int]) -> Iterator[bytes]:
    member = None
    members = 0
    for chunk in chunks:
        read[0] += len(chunk)
        data = chunk
        while data:
            if member is None:
                data = data.lstrip(b"\0") if members else data
                if not data:
                    break
                member = zlib.decompressobj(GZIP)
                members += 1
            try:
                out = member.decompress(data, CHUNK_BYTES)
            except zlib.error as bad:
                raise MalformedArchive(f"the input is no intact gzip file ({bad})") from None
            if out:
                yield out
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
    if member is not None or members == 0:
        raise MalformedArchive("the gzip file is cut short" if members else "the input is empty")
