"""The one definition of equality and order of values: convert columns to flat, comparable ones.

Nulls equal each other and are first, at every depth. 0.0 equals -0.0; all NaN are equal, and above
all numbers. Texts and bytes compare by their bytes, structs member by member, lists element by
element and then by length, maps as lists of their entries.

64-bit hashes of key columns, whole columns at a time.

Equal keys have equal hashes; different keys may share a hash, so a lookup has to compare the keys
themselves afterwards. Equality is that of `comparable.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput

_Offsets = npt.NDArray[np.integer[Any]]
_SIGN = np.int64(np.iinfo(np.int64).max)
_NULL, _VALUE = b"\x01", b"\x02"
_END = b"\x00"
"""Less than `_NULL` and `_VALUE`, so that a list is less than a longer one with the same start."""


def comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a flat column with the same equality and order as the values; nulls stay nulls.

    Nested values become bytes, floats become integers; all other types stay the same.
    """
    array = _whole(column)
    if pa.types.is_floating(array.type):
        bits = float_bits(array)
        return pa.array(bits ^ ((bits >> 63) & _SIGN), mask=_is_null(array))
    if pa.types.is_nested(array.type):
        return pa.array(_encoded(array), pa.large_binary())
    return array


def comparable_table(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Return the comparable columns with the names `k0`, `k1`, …"""
    return pa.table(
        [comparable(each) for each in columns], [f"k{at}" for at in range(len(columns))]
    )


def equal_values(
    one: pa.Array | pa.ChunkedArray, other: pa.Array | pa.ChunkedArray
) -> npt.NDArray[np.bool_]:
    """Return, value by value, whether two columns of one type are equal."""
    left, right = comparable(one), comparable(other)
    equal = pc.equal(left, right).fill_null(False)
    if left.null_count and right.null_count:
        equal = pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    return np.asarray(equal.to_numpy(zero_copy_only=False), bool)


def numbered(columns: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    """Return a number for each row, equal for rows that are equal in all columns. The numbers are
    less than the number of rows."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = pc.dictionary_encode(comparable(column), null_encoding="encode")
        numbers = numbers * (len(coded.dictionary) + 1) + coded.indices.to_numpy()
        numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64).reshape(-1)
    return numbers


def float_bits(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the bits of the values as 64-bit floats, the same for equal values. The bits of nulls
    have no meaning."""
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    bits: npt.NDArray[np.int64] = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return bits


def _encoded(array: pa.Array) -> list[bytes | None]:
    """Encode each value as bytes with the same order, which are not a prefix of another value's."""
    kind = array.type
    if pa.types.is_struct(kind):
        members = [_encoded(array.field(at)) for at in range(kind.num_fields)]
        rows = zip(*members, strict=True) if members else ((),) * len(array)
        values: Iterator[bytes] = (b"".join(map(_marked, row)) for row in rows)
    elif pa.types.is_nested(kind):
        values = _lists(array)
    else:
        values = _leaves(comparable(array))
    return [
        None if missing else value for missing, value in zip(_is_null(array), values, strict=True)
    ]


def _marked(value: bytes | None) -> bytes:
    return _NULL if value is None else _VALUE + value


def _lists(array: pa.Array) -> Iterator[bytes]:
    starts, ends, values = _bounds(array)
    first, last = (int(starts.min()), int(ends.max())) if len(array) else (0, 0)
    each = [_marked(value) for value in _encoded(values.slice(first, last - first))]
    for start, end in zip(starts - first, ends - first, strict=True):
        yield b"".join(each[start:end]) + _END


def _bounds(array: pa.Array) -> tuple[_Offsets, _Offsets, pa.Array]:
    """Return the starts and ends of the elements of each list, and the elements of all lists."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        starts = (array.offset + np.arange(len(array))) * kind.list_size
        return starts, starts + kind.list_size, array.values
    offsets = array.offsets.to_numpy()
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return offsets, offsets + array.sizes.to_numpy(), array.values
    if not pa.types.is_map(kind):
        return offsets[:-1], offsets[1:], array.values
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return offsets[:-1], offsets[1:], entries


def _leaves(array: pa.Array) -> Iterator[bytes]:
    kind = array.type
    if not len(array):
        return iter(())
    if pa.types.is_decimal(kind):
        raw = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, kind.bit_width // 8)
        return _signed(raw[array.offset : array.offset + len(array), ::-1])
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    if pa.types.is_primitive(array.type):
        return _numbers(array)
    return (b"" if value is None else _escaped(_bytes(value)) for value in array.to_pylist())


def _numbers(array: pa.Array) -> Iterator[bytes]:
    width = array.type.bit_width // 8
    if not pa.types.is_integer(array.type):
        array = array.view(f"int{width * 8}")
    numbers = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
    rows = numbers.astype(numbers.dtype.newbyteorder(">")).view(np.uint8).reshape(-1, width)
    if pa.types.is_unsigned_integer(array.type):
        return (row.tobytes() for row in rows)
    return _signed(rows)


def _signed(rows: npt.NDArray[np.uint8]) -> Iterator[bytes]:
    """Yield signed big-endian numbers so that negative ones are less than the others."""
    flipped = rows.copy()
    flipped[:, 0] ^= 0x80
    return (row.tobytes() for row in flipped)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _escaped(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False), bool)


Hashes = npt.NDArray[np.uint64]
HASHED_BYTES = 128
"""Number of bytes of a text that are hashed; of a longer text, also its length counts."""
_CHUNK_ROWS = 1 << 14
"""Texts that are hashed together: their words fit into the cache of a processor."""
_WORD = 8
_STEP = np.uint64(0x9E3779B97F4A7C15)
_BASE = 0x5851F42D4C957F2D
_HASHED_NULL = np.uint64(0xA0761D6478BD642F)


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
        values = _mixed(_hashed_numbers(array))
    if array.null_count:
        values = np.where(pc.is_null(array).to_numpy(zero_copy_only=False), _HASHED_NULL, values)
    return values


def _check_nested(kind: pa.DataType) -> None:
    for at in range(kind.num_fields):
        check_hashable([kind.field(at).type])


def _hashed_numbers(array: pa.Array) -> Hashes:
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
