"""Values of Arrow arrays as the byte stream that a column of the logical hash is fed.

Columns without nulls are handed out in place. For the others numpy and Arrow kernels lay
out one window of rows at a time; no value becomes a Python object.

Arrays are trusted to be valid, as the Parquet reader makes them.
Source: ODF "Logical hash", values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

if TYPE_CHECKING:
    import numpy.typing as npt

    Bits = npt.NDArray[np.bool_]
    """True where a value is valid."""
    Bytes = npt.NDArray[np.uint8]
    Sizes = npt.NDArray[np.int64]

WIDE_BYTES = 1 << 30
"""From this many bytes on, offsets of a window need 64 bits."""

_BINARY = (
    types.is_binary,
    types.is_large_binary,
    types.is_binary_view,
    types.is_fixed_size_binary,
)
_TEXT = (types.is_string, types.is_large_string, types.is_string_view)
_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)


def is_binary(arrow_type: Any) -> bool:
    return any(matches(arrow_type) for matches in _BINARY)


def is_text(arrow_type: Any) -> bool:
    return any(matches(arrow_type) for matches in _TEXT)


def is_list(arrow_type: Any) -> bool:
    return any(matches(arrow_type) for matches in _LISTS)


def u64(value: int) -> bytes:
    return (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def stream(array: Any, valid: Bits | None) -> tuple[Any, Sizes | int]:
    """Bytes that a run of values feeds to its state, and how many each value contributes.

    The sizes are one number when all are equal. `valid` stands in for the array's own bitmap.
    """
    array_type = array.type
    if types.is_boolean(array_type):
        return _booleans(array, valid), 1
    if types.is_fixed_size_binary(array_type) and not types.is_decimal(array_type):
        return _fixed_size_binary(array, valid)
    if is_binary(array_type) or is_text(array_type):
        offsets, data = _text_buffers(array)
        return _framed(np.diff(offsets), offsets, data, valid)
    if is_list(array_type):
        return _lists(array, valid)
    return _numbers(array, valid)


def _booleans(array: Any, valid: Bits | None) -> Bytes:
    """2 for true, 1 for false, 0 for null."""
    out = _bits(array.buffers()[1], array.offset, len(array)).astype(np.uint8) + np.uint8(1)
    if valid is not None:
        out[~valid] = 0
    return out


def _numbers(array: Any, valid: Bits | None) -> tuple[Bytes, Sizes | int]:
    """The bytes in memory; a null shrinks to one zero."""
    width = array.type.bit_width // 8
    values = _part(array.buffers()[1], array.offset * width, len(array) * width)
    if valid is None:
        return values, width
    return _shrink_nulls(values.reshape(-1, width), valid), np.where(valid, width, 1)


def _fixed_size_binary(array: Any, valid: Bits | None) -> tuple[Bytes, Sizes | int]:
    width = array.type.byte_width
    rows = np.empty((len(array), 8 + width), np.uint8)
    rows[:, :8] = np.frombuffer(u64(width), np.uint8)
    if width:
        values = _part(array.buffers()[1], array.offset * width, len(array) * width)
        rows[:, 8:] = values.reshape(-1, width)
    if valid is None:
        return rows.reshape(-1), 8 + width
    return _shrink_nulls(rows, valid), np.where(valid, 8 + width, 1)


def _lists(array: Any, valid: Bits | None) -> tuple[Any, Sizes | int]:
    """Number of items, then the items by the rule of their type."""
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        bounds = np.arange(len(array) + 1, dtype=np.int64) * size + array.offset * size
    else:
        bounds = array.offsets.to_numpy(zero_copy_only=True).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    items = storage(array.values.slice(first, last - first))
    data, sizes = stream(items, validity(items)) if last > first else (b"", 0)
    if isinstance(sizes, int):
        offsets = (bounds - first) * sizes
    else:
        offsets = np.concatenate(([0], np.cumsum(sizes)))[bounds - first]
    return _framed(np.diff(bounds), offsets, data, valid)


def _framed(
    counts: npt.NDArray[Any], offsets: npt.NDArray[Any], data: Any, valid: Bits | None
) -> tuple[Any, Sizes]:
    """Each value as u64 count and its bytes; each null as one zero byte.

    Value `i` is `data[offsets[i]:offsets[i + 1]]`.
    """
    rows = len(counts)
    prefixes = counts.astype("<u8")
    lengths = np.diff(offsets).astype(np.int64)
    if valid is None:
        starts = np.arange(rows + 1, dtype=np.int64) * 8
        sizes, frame, bitmap = lengths + 8, prefixes.view(np.uint8), None
    else:
        starts = np.concatenate(([0], np.cumsum(np.where(valid, 8, 1))))
        sizes = np.where(valid, lengths + 8, 1)
        frame = _shrink_nulls(prefixes.view(np.uint8).reshape(-1, 8), valid)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if not lengths.any():
        return frame, sizes
    wide = int(sizes.sum()) > WIDE_BYTES or int(offsets[-1]) > WIDE_BYTES
    value_type, number = (pa.large_binary(), np.int64) if wide else (pa.binary(), np.int32)

    def column(at: Any, content: Any, nulls: Any) -> Any:
        buffers = [nulls, pa.py_buffer(at.astype(number)), pa.py_buffer(content)]
        return pa.Array.from_buffers(value_type, rows, buffers)

    joined = pc.binary_join_element_wise(
        column(starts, frame, None),
        column(offsets, data, bitmap),
        pa.scalar(b"", value_type),
        null_handling="skip",
    )
    return memoryview(joined.buffers()[2])[: int(sizes.sum())], sizes


def _shrink_nulls(rows: Bytes, valid: Bits) -> Bytes:
    """The rows one after another, each null one reduced to a zero byte."""
    keep = np.empty(rows.shape, np.bool_)
    keep[:] = valid[:, None]
    keep[:, 0] = True
    zeroed = rows.copy()
    zeroed[~valid, 0] = 0
    return zeroed[keep]


# --- Arrow buffers --------------------------------------------------------------------------


def storage_type(arrow_type: Any) -> Any:
    while isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    return arrow_type


def storage(array: Any) -> Any:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def members(struct_type: Any) -> list[Any]:
    return [struct_type.field(position) for position in range(struct_type.num_fields)]


def _part(buffer: Any, start: int, length: int) -> Bytes:
    return np.frombuffer(buffer, np.uint8, length, start)


def _bits(buffer: Any, offset: int, length: int) -> Bits:
    first = offset // 8
    packed = _part(buffer, first, (offset + length + 7) // 8 - first)
    bits = np.unpackbits(packed, bitorder="little")[offset % 8 : offset % 8 + length]
    return bits.view(np.bool_)


def or_none(valid: Bits) -> Bits | None:
    return None if valid.all() else valid


def validity(array: Any) -> Bits | None:
    """The array's own bitmap, or nothing when it has no null."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def _text_buffers(array: Any) -> tuple[npt.NDArray[Any], Any]:
    """Offsets of the visible values, and the bytes they point into."""
    if types.is_binary_view(array.type) or types.is_string_view(array.type):
        array = array.cast(pa.large_binary())
    wide = types.is_large_binary(array.type) or types.is_large_string(array.type)
    number = np.dtype(np.int64 if wide else np.int32)
    _, offsets, data = array.buffers()
    start = array.offset * number.itemsize
    return np.frombuffer(offsets, number, len(array) + 1, start), data or b""
