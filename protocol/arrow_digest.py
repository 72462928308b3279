"""Logical hash of records (arrow0-sha3-256): the same rows, the same hash, however encoded.

One SHA3-256 state per leaf column is fed the values of that column; the head state is fed
the names, then the digests of the columns. A value is its bytes in memory, preceded by
its length where that varies; a null is a single zero byte.

Validity of struct children follows the reference, not common sense: when a parent *and* a
child have nulls in the same batch, their validity bits are OR-ed, so a value is null only
where both say so. Hence batches matter below structs, and files are digested in windows of
10 000 rows. Flat columns may be cut anywhere.

Columns without nulls are hashed in place. For the others one window of rows at a time is
laid out as a byte stream by numpy and Arrow kernels; no value becomes a Python object.

Arrays are trusted to be valid, as the Parquet reader makes them; call
`batch.validate(full=True)` first on Arrow IPC from a stranger.
Source: ODF "Logical hash"; struct nulls and fixed-size values as the reference computes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .errors import BadInput, Damaged
from .multihash import ARROW0_SHA3_256, Multihash

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow.parquet as pq

    Bits = npt.NDArray[np.bool_]
    """True where a value is valid."""
    Bytes = npt.NDArray[np.uint8]
    Sizes = npt.NDArray[np.int64]

Run = Callable[[Iterable[Callable[[], None]]], None]
"""Runs independent jobs to their end, in any order, in any thread."""

FILE_WINDOW_ROWS = 10_000
"""Rows of one batch when a data file is digested; fixed by the reference."""
CACHE_WINDOW_ROWS = 65_536
"""Rows laid out as bytes at a time; any number gives the same digest."""
MAX_NESTING = 64
"""Deepest struct or list that is looked into."""
WIDE_BYTES = 1 << 30
"""From this many bytes on, offsets of a window need 64 bits."""

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnsupportedColumn(BadInput):
    """A column of a type that has no logical hash."""

    def __init__(self, column: str, arrow_type: Any) -> None:
        super().__init__(
            f"column {column!r} has the type {arrow_type}, for which no logical hash is defined",
            column=column,
            type=str(arrow_type),
        )


class SchemaDiffers(BadInput):
    """A batch whose columns are not those the digest was started with."""


class UnreadableSlice(Damaged):
    """A data file that cannot be read to its end as Parquet."""


def in_order(jobs: Iterable[Callable[[], None]]) -> None:
    """Run jobs one after the other, here."""
    for job in jobs:
        job()


class ArrowDigest:
    """The digest of a record set, fed batch by batch.

    `run` may run the jobs of one batch (one per leaf column) in parallel threads; it
    returns when all are done.

    Raises:
        UnsupportedColumn: at once, for a type without a digest (dictionary, map, union, …).
    """

    def __init__(self, schema: pa.Schema, *, run: Run = in_order) -> None:
        self.schema = schema
        self.indeterminate = False
        """A struct and a child of it both had nulls in one batch: readers may disagree."""
        self._run = run
        self._head = hashlib.sha3_256()
        self._columns: list[Any] = []
        for field in schema:
            self._start(field, 0)

    def update(self, batch: pa.RecordBatch) -> None:
        """Feed the rows of one batch.

        Raises:
            SchemaDiffers: other names or types than the digest was started with.
            UnsupportedColumn: values of a column of type null.
        """
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise SchemaDiffers("the batch has other columns than the digest was started with")
        states = iter(self._columns)
        jobs: list[Callable[[], None]] = []
        if batch.num_rows:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                for leaf, valid in self._leaves(column, None, name):
                    jobs.append(_job(next(states), leaf, valid))
        self._run(jobs)

    def finish(self) -> Multihash:
        """The logical hash of all rows so far; more may follow."""
        head = self._head.copy()
        for column in self._columns:
            head.update(column.digest())
        return Multihash(ARROW0_SHA3_256, head.digest())

    def _start(self, field: pa.Field, level: int) -> None:
        """Feed the name to the head; open a state, or go on with the children of a struct."""
        name = field.name.encode()
        self._head.update(_u64(len(name)) + name + _u64(level))
        arrow_type = _storage_type(field.type)
        if types.is_struct(arrow_type) and level < MAX_NESTING:
            for child in _members(arrow_type):
                self._start(child, level + 1)
        else:
            self._columns.append(hashlib.sha3_256(type_prefix(arrow_type, field.name)))

    def _leaves(
        self, array: Any, above: Bits | None, name: str
    ) -> Iterator[tuple[Any, Bits | None]]:
        """Leaf arrays below one column in field order, each with the validity that counts."""
        array = _storage(array)
        if types.is_null(array.type):
            raise UnsupportedColumn(name, array.type)
        own = _validity(array)
        if above is not None and own is not None:
            self.indeterminate = True
            own = _or_none(above | own)
        elif own is None:
            own = above
        if not types.is_struct(array.type):
            yield array, own
            return
        for position, child in enumerate(_members(array.type)):
            yield from self._leaves(array.field(position), own, child.name)


def logical_hash(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, run: Run = in_order
) -> Multihash:
    """Logical hash of record batches as they are cut. Raises as `ArrowDigest`."""
    digest = ArrowDigest(schema, run=run)
    for batch in batches:
        digest.update(batch)
    return digest.finish()


def logical_hash_of(file: pq.ParquetFile, *, run: Run = in_order) -> Multihash:
    """Logical hash of a data slice. Raises as `digest_of`."""
    return digest_of(file, run=run).finish()


def digest_of(file: pq.ParquetFile, *, run: Run = in_order) -> ArrowDigest:
    """The digest of a data slice, read in windows of 10 000 rows from its start.

    Ask its `indeterminate` before calling a mismatch damage.

    Raises:
        UnsupportedColumn: a column type without a digest.
        UnreadableSlice: the file breaks off or is no valid Parquet.
    """
    try:
        digest = ArrowDigest(file.schema_arrow, run=run)
        batches = file.iter_batches(batch_size=FILE_WINDOW_ROWS)
        for batch in windows(batches, FILE_WINDOW_ROWS):
            digest.update(batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableSlice(f"the data slice cannot be read: {str(error)[:200]}") from None
    return digest


def windows(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows`, the last one perhaps shorter."""
    pending: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            part = batch.slice(at, missing)
            pending.append(part)
            at += part.num_rows
            missing -= part.num_rows
            if missing == 0:
                yield pa.concat_batches(pending) if len(pending) > 1 else pending[0]
                pending, missing = [], rows
    if pending:
        yield pa.concat_batches(pending)


# --- type prefixes --------------------------------------------------------------------------


def type_prefix(arrow_type: Any, column: str, depth: int = 0) -> bytes:
    """What a column state starts with: type number and parameters. Raises `UnsupportedColumn`."""
    arrow_type = _storage_type(arrow_type)
    for matches, prefix in _PREFIXES:
        if matches(arrow_type):
            return prefix(arrow_type)
    if _is_list(arrow_type) and depth < MAX_NESTING:
        item_type = _storage_type(arrow_type.value_type)
        if not types.is_null(item_type):
            return _u16(11) + type_prefix(item_type, column, depth + 1)
    raise UnsupportedColumn(column, arrow_type)


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _u64(value: int) -> bytes:
    return (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def _timestamp_prefix(arrow_type: Any) -> bytes:
    zone = (arrow_type.tz or "").encode()
    return _u16(9) + _u16(_UNITS[arrow_type.unit]) + (_u64(len(zone)) + zone if zone else b"\0")


_BINARY = (
    types.is_binary,
    types.is_large_binary,
    types.is_binary_view,
    types.is_fixed_size_binary,
)
_TEXT = (types.is_string, types.is_large_string, types.is_string_view)
_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)


def _is_binary(arrow_type: Any) -> bool:
    return any(matches(arrow_type) for matches in _BINARY)


def _is_text(arrow_type: Any) -> bool:
    return any(matches(arrow_type) for matches in _TEXT)


def _is_list(arrow_type: Any) -> bool:
    return any(matches(arrow_type) for matches in _LISTS)


_PREFIXES: tuple[tuple[Callable[[Any], bool], Callable[[Any], bytes]], ...] = (
    (types.is_null, lambda _: _u16(0)),
    (types.is_signed_integer, lambda t: _u16(1) + b"\1" + _u64(t.bit_width)),
    (types.is_unsigned_integer, lambda t: _u16(1) + b"\0" + _u64(t.bit_width)),
    (types.is_floating, lambda t: _u16(2) + _u64(t.bit_width)),
    (
        types.is_decimal,
        lambda t: _u16(6) + _u64(t.bit_width) + _u64(t.precision) + _u64(t.scale),
    ),
    (_is_binary, lambda _: _u16(3)),
    (_is_text, lambda _: _u16(4)),
    (types.is_boolean, lambda _: _u16(5)),
    (types.is_date32, lambda _: _u16(7) + _u64(32) + _u16(0)),
    (types.is_date64, lambda _: _u16(7) + _u64(64) + _u16(1)),
    (types.is_time, lambda t: _u16(8) + _u64(t.bit_width) + _u16(_UNITS[t.unit])),
    (types.is_timestamp, _timestamp_prefix),
)


# --- values as bytes ------------------------------------------------------------------------


def _job(state: Any, array: Any, valid: Bits | None) -> Callable[[], None]:
    def job() -> None:
        for at in range(0, len(array), CACHE_WINDOW_ROWS):
            window = array.slice(at, CACHE_WINDOW_ROWS)
            bits = None if valid is None else _or_none(valid[at : at + CACHE_WINDOW_ROWS])
            state.update(_stream(window, bits)[0])

    return job


def _stream(array: Any, valid: Bits | None) -> tuple[Any, Sizes | int]:
    """Bytes that a run of values feeds to its state, and how many each value contributes.

    The sizes are one number when all are equal. `valid` stands in for the array's own bitmap.
    """
    array_type = array.type
    if types.is_boolean(array_type):
        return _booleans(array, valid), 1
    if types.is_fixed_size_binary(array_type) and not types.is_decimal(array_type):
        return _fixed_size_binary(array, valid)
    if _is_binary(array_type) or _is_text(array_type):
        offsets, data = _text_buffers(array)
        return _framed(np.diff(offsets), offsets, data, valid)
    if _is_list(array_type):
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
    rows[:, :8] = np.frombuffer(_u64(width), np.uint8)
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
    items = _storage(array.values.slice(first, last - first))
    data, sizes = _stream(items, _validity(items)) if last > first else (b"", 0)
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


def _storage_type(arrow_type: Any) -> Any:
    while isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    return arrow_type


def _storage(array: Any) -> Any:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def _members(struct_type: Any) -> list[Any]:
    return [struct_type.field(position) for position in range(struct_type.num_fields)]


def _part(buffer: Any, start: int, length: int) -> Bytes:
    return np.frombuffer(buffer, np.uint8, length, start)


def _bits(buffer: Any, offset: int, length: int) -> Bits:
    first = offset // 8
    packed = _part(buffer, first, (offset + length + 7) // 8 - first)
    bits = np.unpackbits(packed, bitorder="little")[offset % 8 : offset % 8 + length]
    return bits.view(np.bool_)


def _or_none(valid: Bits) -> Bits | None:
    return None if valid.all() else valid


def _validity(array: Any) -> Bits | None:
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
