"""64-bit hashes of key columns, whole columns at a time.

Equal keys have equal hashes; different keys may share a hash, so a lookup has to compare the keys
themselves afterwards. Equality is that of `comparable.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput

from .comparable import comparable, float_bits

Hashes = npt.NDArray[np.uint64]
HASHED_BYTES = 128
"""Number of bytes of a text that are hashed; of a longer text, also its length counts."""
_CHUNK_ROWS = 1 << 14
"""Texts that are hashed together: their words fit into the cache of a processor."""
_WORD = 8
_STEP = np.uint64(0x9E3779B97F4A7C15)
_BASE = 0x5851F42D4C957F2D
_NULL = np.uint64(0xA0761D6478BD642F)


class NotHashable(BadInput):
    """A key column has a type for which no hash is defined."""


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""Masks of the first bytes of a word."""
_SEEDS = np.array([pow(_BASE, at + 1, 2**64) for at in range(HASHED_BYTES // _WORD)], np.uint64)
"""What each word of a text is mixed with, so that its position counts."""


def key_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """Return one hash for each row over all columns. Raise `NotHashable`."""
    total = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        total = _mixed(total * _STEP + _column(column))
    return total


def check_hashable(kinds: Sequence[pa.DataType]) -> None:
    """Check that all types have a hash. Raise `NotHashable` for the first that has none."""
    for kind in kinds:
        _column(pa.array([], kind))


def _column(array: pa.Array) -> Hashes:
    if pa.types.is_nested(array.type):
        _check_nested(array.type)
        array = comparable(array)
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_binary(kind):
        values = _text(array)
    elif pa.types.is_decimal(kind):
        values = _text(array.cast(pa.string()))
    else:
        values = _mixed(_numbers(array))
    if array.null_count:
        values = np.where(pc.is_null(array).to_numpy(zero_copy_only=False), _NULL, values)
    return values


def _check_nested(kind: pa.DataType) -> None:
    for at in range(kind.num_fields):
        check_hashable([kind.field(at).type])


def _numbers(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_floating(kind):
        return float_bits(array).view(np.uint64)
    if pa.types.is_boolean(kind):
        array, kind = array.cast(pa.int8()), pa.int8()
    elif not (pa.types.is_primitive(kind) and kind.bit_width in (8, 16, 32, 64)):
        raise NotHashable(f"a key column of type {kind} has no hash", type=str(kind))
    if not pa.types.is_integer(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if array.null_count:
        array = array.fill_null(0)
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.uint64)


def _text(array: pa.Array) -> Hashes:
    """Hash each value: the sum of its words, each mixed with its position, and of its length."""
    if not len(array):
        return np.zeros(0, np.uint64)
    raw = array.cast(pa.large_binary())
    lengths = pc.binary_length(raw).fill_null(0).to_numpy(zero_copy_only=False)
    if len(lengths) and lengths.max() > HASHED_BYTES:
        raw = pc.binary_slice(raw, 0, HASHED_BYTES)
    offsets = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset : raw.offset + len(raw) + 1]
    data = raw.buffers()[2]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    sums = np.zeros(len(raw), np.uint64)
    for start in range(0, len(raw), _CHUNK_ROWS):
        end = min(start + _CHUNK_ROWS, len(raw))
        sums[start:end] = _sums(bytes_, offsets[start : end + 1])
    return _mixed(sums + lengths.astype(np.uint64) * _STEP)


def _sums(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    begins, sizes = offsets[:-1] - offsets[0], np.diff(offsets)
    padded = np.zeros(int(offsets[-1] - offsets[0]) + _WORD, np.uint8)
    padded[:-_WORD] = data[offsets[0] : offsets[-1]]
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded.data, strides=(1,))
    sums = np.zeros(len(sizes), np.uint64)
    for at in range(0, int(sizes.max()), _WORD):
        rows = np.flatnonzero(sizes > at)
        word = words[begins[rows] + at] & _MASKS[np.minimum(sizes[rows] - at, _WORD)]
        sums[rows] += _mixed(word + _SEEDS[at // _WORD])
    return sums


def _mixed(values: Hashes) -> Hashes:
    """Mix values so that every input bit affects every output bit (splitmix64)."""
    mixed: Any = values + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
