"""The boundaries of slices: a function of the rows and two settings, independent of partitions.

The cost of a row is the size of its values in bytes, and at least `SliceCut.least`, so that a
slice has at most `SliceCut.rows` rows. The number of a row's slice is the cost of all rows before
it, divided by `SliceCut.size`: every partition can compute it once it knows the cost of earlier
partitions.

Cut rows into pieces by number and weight: row groups of a file, slices of a batch.

The weight of rows is the bytes of their values, independent of their buffers: every worker cuts
equal rows at the same positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.columns.arrow_values import text_buffers

MAP_BYTES = 64
"""Assumed bytes of a map; its entries are not read."""
_VARIABLE = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


@dataclass(slots=True)
class WeighedRows:
    """Rows that belong together, and their weight in bytes."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += weight(batch)


def pieces(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[WeighedRows]:
    """Yield the same rows in pieces of at most `rows` rows, and of about `size` bytes, exceeded by
    less than a batch."""
    piece = WeighedRows()
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - piece.rows)
            batch = batch.slice(part.num_rows)
            piece.add(part)
            if piece.rows >= rows or piece.size >= size:
                yield piece
                piece = WeighedRows()
    if piece.rows:
        yield piece


def weight(batch: pa.RecordBatch) -> int:
    """Return the bytes of the values of a batch."""
    return sum(_weight(column) for column in batch.columns)


def leaves_of(schema: pa.Schema) -> int:
    """Return the number of columns with values, counting the members of structs."""
    return max(1, sum(_leaves(kind) for kind in schema.types))


def _weight(array: pa.Array) -> int:
    kind = array.type
    if (bytes_ := width(kind)) is not None:
        return bytes_ * len(array)
    if pa.types.is_struct(kind):
        return len(array) + sum(_weight(array.field(at)) for at in range(kind.num_fields))
    if pa.types.is_map(kind):
        return MAP_BYTES * len(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return 4 * len(array) + _weight(array.flatten())
    if len(array) and array.null_count == 0:  # there are no bytes between the values
        offsets, _ = text_buffers(array)
        return 4 * len(array) + int(offsets[-1] - offsets[0])
    return 4 * len(array) + int(pc.sum(pc.binary_length(array)).as_py() or 0)


@lru_cache
def width(kind: pa.DataType) -> int | None:
    """Return the bytes of a value of a fixed-width type; None for other types."""
    if pa.types.is_nested(kind) or any(matches(kind) for matches in _VARIABLE):
        return None
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # views and similar types: assume the size of their pointer
        return 16


def _leaves(kind: pa.DataType) -> int:
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields))
    return 1


Costs = npt.NDArray[np.int64]
SYSTEM_BYTES = 16
"""Bytes of a row's offset and system time, which it gets when it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCut:
    """Limits of a slice, which ends at the first limit reached: rows, or bytes.

    Bytes are the bytes of values, not of the file.
    """

    rows: int = 1 << 20
    size: int = 256 << 20

    @property
    def least(self) -> int:
        """The least cost of a row."""
        return -(-self.size // self.rows)

    def count(self, cost: int) -> int:
        """Return the number of slices for rows of this total cost; some of them may have no
        rows."""
        return -(-cost // self.size)


def row_costs(batch: pa.RecordBatch, cut: SliceCut) -> Costs:
    """Return the cost of each row, given its operation code and data columns."""
    widths = [width(kind) for kind in batch.schema.types]
    fixed = SYSTEM_BYTES + sum(each for each in widths if each is not None)
    total = np.full(batch.num_rows, fixed, np.int64)
    for at, each in enumerate(widths):
        if each is None:
            total += _costs(batch.column(at))
    return np.maximum(total, cut.least, out=total)


def costs_of(rows: pa.Table, cut: SliceCut) -> Costs:
    """As `row_costs`, of a table."""
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(row_costs(batch, cut) for batch in rows.to_batches())])


def in_slices(
    batch: pa.RecordBatch, costs: Costs, before: int, cut: SliceCut
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows with the numbers of their slices; `before` is the cost of all earlier rows."""
    if not len(costs):
        return
    numbers = (before + np.cumsum(costs) - costs) // cut.size
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        yield int(numbers[start]), batch.slice(int(start), int(end - start))


def _costs(array: pa.Array) -> Costs | int:
    kind = array.type
    if (bytes_ := width(kind)) is not None:
        return bytes_
    if pa.types.is_struct(kind):
        members: Costs = np.ones(len(array), np.int64)
        for member in array.flatten():  # values inside a null struct cost nothing
            members += _costs(member)
        return members
    if pa.types.is_map(kind):
        return MAP_BYTES
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_costs(array)
    if len(array) and array.null_count == 0:
        return np.diff(text_buffers(array)[0]).astype(np.int64) + 4
    return np.asarray(pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)) + 4


def _list_costs(array: pa.Array) -> Costs:
    inside = np.broadcast_to(_costs(array.flatten()), len(array.flatten()))
    sums = np.concatenate([[0], np.cumsum(inside)])
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths).astype(np.int64)
    return np.asarray(sums[ends] - sums[ends - lengths] + 4, np.int64)
