"""Sets of row positions as 64-bit Roaring bitmaps in the portable form.

Sorted arrays in, two kinds of containers out. Source: Roaring format specification, "Extension for
64-bit implementations"; Delta protocol, "Deletion Vector Format".
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.int64]]
"""Row positions in a file, ascending, each once."""

_COOKIE = 12346
"""Of a bitmap without run containers."""
_MOST_IN_ARRAY = 4096
_BITS = 1 << 16


def portable(positions: Positions) -> bytes:
    """The bitmap of these positions."""
    highs, starts = np.unique(positions >> 32, return_index=True)
    parts = np.split(positions, starts[1:]) if len(highs) else []
    out = [struct.pack("<Q", len(highs))]
    for high, part in zip(highs.tolist(), parts, strict=True):
        out += [struct.pack("<I", high), _bitmap(part & 0xFFFFFFFF)]
    return b"".join(out)


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
