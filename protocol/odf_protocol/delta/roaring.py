"""Sets of row positions as 64-bit Roaring bitmaps in the portable form.

Converts sorted arrays to bitmaps with two kinds of containers, and back. Source: Roaring format
specification, "Extension for 64-bit implementations"; Delta protocol, "Deletion Vector Format".
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

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
