"""Read the last rows of a dataset from its newest slices, without earlier row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import Damaged
from odf_protocol.metadata.data import DataSlice
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.batches import batches_of
from odf_storage.datasets.read.narrowed import loosened
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.rows import live_facts
from odf_storage.datasets.read.scan import fitted
from odf_storage.datasets.read.view import View
from odf_storage.stores.ports.values import ObjectKind

from ..readers.tasks import AnswerTooLong

Open = Callable[[ObjectKind, Multihash], BinaryIO]


class SliceUnreadable(Damaged):
    """A stored data slice is no valid Parquet file."""


def last_rows(
    slices: Sequence[DataSlice],
    opened: Open,
    schema: pa.Schema,
    *,
    skip: int,
    limit: int,
    max_bytes: int,
) -> pa.Table | None:
    """Return the `limit` rows before the last `skip`, in offset order and in the columns of the
    dataset's `schema`, since slices may hold them as other Arrow types; None without slices.

    Raises:
        AnswerTooLong: the rows have more than `max_bytes`. SliceUnreadable.
    """
    tables: list[pa.Table] = []
    wanted, left, shown = skip + limit, max_bytes, loosened(schema)
    for piece in reversed(slices):
        table = _of_slice(piece, opened, shown, wanted, left)
        wanted, left = wanted - table.num_rows, left - table.nbytes
        tables.insert(0, table)
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    end = max(0, whole.num_rows - skip)
    start = max(0, end - limit)
    return whole.slice(start, end - start)


def last_standing(view: View, *, skip: int, limit: int) -> tuple[pa.Table, int]:
    """Return the `limit` current rows before the last `skip`, in offset order, and the number of
    all current rows. Raises the errors of reading slices."""
    with scanning(view) as scan:
        standing = live_facts(scan, view.vocab)
        end = max(0, len(standing) - skip)
        chosen = standing[max(0, end - limit) : end]
        schema = loosened(view.schema if view.schema is not None else pa.schema([]))
        return pa.Table.from_batches(scan(None, chosen), schema), len(standing)


def _of_slice(
    piece: DataSlice, opened: Open, schema: pa.Schema, wanted: int, max_bytes: int
) -> pa.Table:
    with opened(ObjectKind.DATA, piece.physical_hash) as file:
        try:
            parquet = pq.ParquetFile(file, pre_buffer=False)
            groups, skipped = _needed_groups(parquet.metadata, wanted)
            there = [name for name in schema.names if name in parquet.schema_arrow.names]
            batches = batches_of(parquet, file, columns=there, groups=groups)
            rows = (fitted(batch, schema) for batch in _drop_first(batches, skipped))
            return pa.Table.from_batches(_bounded(rows, max_bytes), schema)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as broken:
            raise SliceUnreadable(
                f"data slice {piece.physical_hash} cannot be read: {str(broken)[:200]}",
                object=f"data/{piece.physical_hash}",
            ) from None


def _bounded(batches: Iterator[Any], max_bytes: int) -> Iterator[Any]:
    left = max_bytes
    for batch in batches:
        left -= batch.nbytes
        if left < 0:
            raise AnswerTooLong(max_bytes)
        yield batch


def _needed_groups(metadata: Any, wanted: int) -> tuple[Sequence[int], int]:
    """Return the last row groups with `wanted` rows, and the number of surplus rows in them."""
    rows, first = 0, metadata.num_row_groups
    while first > 0 and rows < wanted:
        first -= 1
        rows += metadata.row_group(first).num_rows
    return range(first, metadata.num_row_groups), max(0, rows - wanted)


def _drop_first(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    for batch in batches:
        if rows >= batch.num_rows:
            rows -= batch.num_rows
        else:
            yield batch.slice(rows)
            rows = 0
