"""Converts values of Arrow arrays to the bytes that the logical hash of a column covers.

Fixed-width columns without nulls are returned without a copy. The others are laid out in windows
of rows, without creating Python objects for values: one Arrow join puts eight zeros before every
text, numpy writes the lengths over them, and another join inserts the nulls.

Arrays are trusted to be valid, because the Parquet reader creates them.
Source: ODF "Logical hash", values.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Bits = npt.NDArray[np.bool_]
    """True where a value is valid."""
    Bytes = npt.NDArray[np.uint8]
    Sizes = npt.NDArray[np.int64]

WIDE_BYTES = 1 << 30
"""Number of bytes from which offsets of a window need 64 bits."""
KNOWN_TYPES = 256
FEW_VALUES = 32
"""Up to this number of texts, laying them out one by one is faster than all at once."""
COUNT_BYTES = 8
"""Size in bytes of the length before each value of a variable-length type."""

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


def stream(array: Any, valid: Bits | None) -> Any:
    """Return the hash input of an array's values.

    `valid` replaces the array's own bitmap; None means that no value is null.
    """
    return _layout(array.type)(array, valid)


@lru_cache(KNOWN_TYPES)
def _layout(array_type: Any) -> Callable[[Any, Bits | None], Any]:
    """Return the function that lays out values of a type."""
    if types.is_boolean(array_type):
        return _booleans
    if is_list(array_type):
        return _list_stream
    return _texts if is_binary(array_type) or is_text(array_type) else _numbers


def _list_stream(array: Any, valid: Bits | None) -> Any:
    items = _items(array)
    return _framed(*_bounds(array, items), stream(items, validity(items)), valid)


def _texts(array: Any, valid: Bits | None) -> Any:
    offsets, data = text_buffers(array)
    if len(array) <= FEW_VALUES:
        return _framed_one_by_one(offsets, data, valid)
    return _framed(np.diff(offsets), offsets, data, valid)


def _sizes(array: Any, valid: Bits | None) -> Sizes | int:
    """Return the size of each value's hash input; a single number if all have the same."""
    array_type = array.type
    if types.is_boolean(array_type):
        return 1
    if is_list(array_type):
        sizes: Any = np.diff(_bounds(array, _items(array))[1]) + COUNT_BYTES
    elif is_binary(array_type) or is_text(array_type):
        sizes = np.diff(text_buffers(array)[0]) + COUNT_BYTES
    else:
        sizes = array_type.bit_width // 8
    return sizes if valid is None else np.where(valid, sizes, 1)


def _booleans(array: Any, valid: Bits | None) -> Bytes:
    """Return 2 for true, 1 for false, 0 for null."""
    out = _bits(array.buffers()[1], array.offset, len(array)).view(np.uint8) + np.uint8(1)
    if valid is not None:
        out *= valid.view(np.uint8)
    return out


def _numbers(array: Any, valid: Bits | None) -> Bytes:
    """Return the bytes in memory; a null becomes a single zero byte."""
    width = array.type.bit_width // 8
    values = _part(array.buffers()[1], array.offset * width, len(array) * width)
    if valid is None:
        return values
    nulls = np.flatnonzero(~valid)
    kept = values.view(f"V{width}").compress(valid).view(np.uint8)
    return _with_nulls(kept, (nulls - np.arange(len(nulls))) * width)


def _items(array: Any) -> Any:
    """Return the items of the visible lists."""
    first, last = _first_and_last(array)
    return storage(array.values.slice(first, last - first))


def _bounds(array: Any, items: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the item count of each list, and the offset of its bytes in the items' hash input."""
    if types.is_fixed_size_list(array.type):
        bounds = np.arange(len(array) + 1, dtype=np.int64) * array.type.list_size
    else:
        bounds = array.offsets.to_numpy(zero_copy_only=True).astype(np.int64)
        bounds -= bounds[0]
    sizes = _sizes(items, validity(items)) if len(items) else 0
    if isinstance(sizes, int):
        return np.diff(bounds), bounds * sizes
    return np.diff(bounds), np.concatenate(([0], np.cumsum(sizes)))[bounds]


def _first_and_last(array: Any) -> tuple[int, int]:
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.offset * size, (array.offset + len(array)) * size
    return array.offsets[0].as_py(), array.offsets[-1].as_py()


def _framed(
    counts: npt.NDArray[Any], offsets: npt.NDArray[Any], data: Any, valid: Bits | None
) -> Bytes:
    """Return each value as u64 count and its bytes, and each null as one zero byte.

    Value `i` is `data[offsets[i]:offsets[i + 1]]`.
    """
    if valid is None:
        return _counted(counts, offsets, data)[0]
    nulls = np.flatnonzero(~valid)
    if (offsets[nulls] != offsets[nulls + 1]).any():
        offsets, data = _without_nulls(offsets, data, valid)
    else:
        offsets = np.append(offsets[:-1][valid], offsets[-1:])
    framed, starts = _counted(counts[valid], offsets, data)
    return _with_nulls(framed, starts[nulls - np.arange(len(nulls))])


def _framed_one_by_one(offsets: npt.NDArray[Any], data: Any, valid: Bits | None) -> bytes:
    """As `_framed`, for a few values."""
    content, out = memoryview(data), list[bytes | memoryview]()
    for at, (first, last) in enumerate(pairwise(offsets.tolist())):
        if valid is None or valid[at]:
            out += [u64(last - first), content[first:last]]
        else:
            out.append(b"\0")
    return b"".join(out)


def _counted(counts: npt.NDArray[Any], offsets: npt.NDArray[Any], data: Any) -> tuple[Bytes, Sizes]:
    """Return each value as u64 count and its bytes, and the start of each and end of the last."""
    out = joined(np.append(offsets[:1], offsets), data, bytes(COUNT_BYTES))
    starts = np.arange(-int(offsets[0]), COUNT_BYTES * len(offsets) - int(offsets[0]), COUNT_BYTES)
    starts += offsets
    largest = int(counts.max(initial=0))
    positions = starts[:-1]
    while largest:
        out[positions] = counts.astype(np.uint8)
        largest >>= 8
        if largest:
            positions, counts = positions + 1, counts >> 8
    return out, starts


def _with_nulls(data: Bytes, cuts: npt.NDArray[Any]) -> Bytes:
    """Insert one zero byte at each of these positions."""
    return joined(np.concatenate(([0], cuts, [len(data)])), data, b"\0")


def joined(offsets: npt.NDArray[Any], data: Any, separator: bytes) -> Bytes:
    """Join values with a separator; the result is a new array that the caller may change.

    If the first value is empty, the result starts with the separator.
    """
    rows = len(offsets) - 1
    first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    size = length + len(separator) * (rows - 1)
    wide = size > WIDE_BYTES
    value_type, number = (pa.large_binary(), np.int64) if wide else (pa.binary(), np.int32)
    if first:
        offsets = offsets - first
    content = pa.py_buffer(data).slice(first, length)
    positions = pa.py_buffer(offsets.astype(number, copy=False))
    values = pa.Array.from_buffers(value_type, rows, [None, positions, content])
    ends = [None, pa.py_buffer(np.array([0, rows]))]
    list_type = pa.large_list(value_type)
    one_list = pa.Array.from_buffers(list_type, 1, ends, children=[values])
    joined = pc.call_function("binary_join", [one_list, pa.scalar(separator, value_type)])
    return np.frombuffer(joined.buffers()[2] or b"", np.uint8, size)


def _without_nulls(
    offsets: npt.NDArray[Any], data: Any, valid: Bits
) -> tuple[npt.NDArray[Any], Any]:
    """Remove the bytes that are stored for null values."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    values = pa.Array.from_buffers(pa.large_binary(), len(valid), buffers)
    return text_buffers(values.filter(pa.array(valid)))


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
    count = offset % 8 + length
    return np.unpackbits(packed, count=count, bitorder="little")[offset % 8 :].view(np.bool_)


def or_none(valid: Bits) -> Bits | None:
    return None if valid.all() else valid


def validity(array: Any) -> Bits | None:
    """Return the array's own bitmap, or None if it has no null."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def text_buffers(array: Any) -> tuple[npt.NDArray[Any], Any]:
    """Return the offsets of the visible values, and the bytes that they point into."""
    if types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        return (np.arange(len(array) + 1) + array.offset) * width, array.buffers()[1] or b""
    if types.is_binary_view(array.type) or types.is_string_view(array.type):
        array = array.cast(pa.large_binary())
    wide = types.is_large_binary(array.type) or types.is_large_string(array.type)
    number = np.dtype(np.int64 if wide else np.int32)
    _, offsets, data = array.buffers()
    start = array.offset * number.itemsize
    return np.frombuffer(offsets, number, len(array) + 1, start), data or b""


def bytes_of(array: Any) -> memoryview:
    """Return the concatenated visible values of text or bytes."""
    offsets, data = text_buffers(array)
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]
