"""Inline deletion vectors: text inside of a log that says which rows of a file are deleted.

Source: Delta protocol, "Deletion Vector Format", "Deletion Vector Descriptor Schema".

Sets of row positions as 64-bit Roaring bitmaps in the portable form.

Converts sorted arrays to bitmaps with two kinds of containers, and back. Source: Roaring format
specification, "Extension for 64-bit implementations"; Delta protocol, "Deletion Vector Format".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

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


Positions = np.ndarray[Any, np.dtype[np.int64]]
"""Row positions in a file, ascending and distinct."""

_COOKIE = 12346
"""Marks a bitmap without run containers."""
_MOST_IN_ARRAY = 4096
_BITS = 1 << 16


def portable(positions: Positions) -> bytes:
    """Return the bitmap of these positions."""
    highs, starts = np.unique(positions >> 32, return_index=True)
    parts = np.split(positions, starts[1:]) if len(highs) else []
    out = [struct.pack("<Q", len(highs))]
    for high, part in zip(highs.tolist(), parts, strict=True):
        out += [struct.pack("<I", high), _bitmap(part & 0xFFFFFFFF)]
    return b"".join(out)


def positions(bitmap: bytes) -> Positions:
    """Return the positions in a bitmap that `portable` made."""
    found: list[Positions] = []
    (count,) = struct.unpack_from("<Q", bitmap)
    at = 8
    for _ in range(count):
        (high,) = struct.unpack_from("<I", bitmap, at)
        part, at = _positions(bitmap, at + 4)
        found.append(part + (high << 32))
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _positions(bitmap: bytes, start: int) -> tuple[Positions, int]:
    """Return the positions in the 32-bit bitmap at `start`, and its end."""
    _, count = struct.unpack_from("<II", bitmap, start)
    described = np.frombuffer(bitmap, "<u2", 2 * count, start + 8).astype(np.int64)
    found: list[Positions] = []
    at = start + 8 + 8 * count
    for key, size in zip(described[::2].tolist(), (described[1::2] + 1).tolist(), strict=True):
        if size <= _MOST_IN_ARRAY:
            low, length = np.frombuffer(bitmap, "<u2", size, at).astype(np.int64), 2 * size
        else:
            bits = np.frombuffer(bitmap, np.uint8, _BITS // 8, at)
            low, length = np.flatnonzero(np.unpackbits(bits, bitorder="little")), _BITS // 8
        found.append(low.astype(np.int64) + (key << 16))
        at += length
    return np.concatenate(found), at


def _bitmap(positions: Positions) -> bytes:
    keys, starts = np.unique(positions >> 16, return_index=True)
    parts = [part & 0xFFFF for part in np.split(positions, starts[1:])]
    containers = [_container(part) for part in parts]
    head = struct.pack("<II", _COOKIE, len(keys))
    counts = np.array([len(part) - 1 for part in parts])
    described = np.column_stack([keys, counts]).astype("<u2").tobytes()
    first = len(head) + len(described) + 4 * len(keys)
    sizes = np.array([0, *(len(each) for each in containers[:-1])])
    offsets = (first + np.cumsum(sizes)).astype("<u4").tobytes()
    return b"".join([head, described, offsets, *containers])


def _container(values: Positions) -> bytes:
    if len(values) <= _MOST_IN_ARRAY:
        return values.astype("<u2").tobytes()
    bits = np.zeros(_BITS, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()
