"""Cut rows into pieces by number and weight: row groups of a file, slices of a batch.

The weight of rows is the bytes of their values, independent of their buffers: every worker cuts
equal rows at the same positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.arrow_values import text_buffers

MAP_BYTES = 64
"""Assumed bytes of a map; its entries are not read."""
_VARIABLE = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


@dataclass(slots=True)
class Piece:
    """Rows that belong together, and their weight in bytes."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += weight(batch)


def pieces(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[Piece]:
    """Yield the same rows in pieces of at most `rows` rows, and of about `size` bytes, exceeded by
    less than a batch."""
    piece = Piece()
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - piece.rows)
            batch = batch.slice(part.num_rows)
            piece.add(part)
            if piece.rows >= rows or piece.size >= size:
                yield piece
                piece = Piece()
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
