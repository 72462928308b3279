"""Read the rows of a table, partition by partition, in the columns of the schema file.

Rows have the order of their file; the order of partitions has no meaning. A file that is missing,
damaged or of other types ends the read with an error, so that a part never looks like all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import BadInput
from odf_protocol.kartothek.errors import KartothekFileMissing, UnreadableDataFile
from odf_protocol.kartothek.predicates import Predicate, check_predicate, mask_of
from odf_protocol.slice_file import UNREADABLE, UnreadableSlice, open_slice

from ...stores.ports.errors import KeyNotFound
from ..read.batches import batches_of
from .fit import in_schema
from .select import selected
from .tables import Partition, Table


class UnknownKartothekColumn(BadInput):
    """The schema file has no such column."""


def rows_of(
    table: Table, *, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Return the rows that satisfy the predicate (None: all) in these columns (None: all).

    Raises:
        UnknownKartothekColumn, MalformedPredicate: at once.
        KartothekFileMissing, UnreadableDataFile, TypeConflict: while rows are read.
    """
    names = list(table.schema.names if columns is None else columns)
    for name in names:
        if name not in table.schema.names:
            raise UnknownKartothekColumn(f"the table has no column {name[:100]!r}")
    if predicate is not None:
        check_predicate(predicate, table.schema)
    return _rows(table, names, predicate)


def whole_table(
    table: Table, *, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> pa.Table:
    """Return the rows of `rows_of` as one table in memory."""
    names = table.schema.names if columns is None else columns
    batches = rows_of(table, columns=columns, predicate=predicate)
    return pa.Table.from_batches(batches, pa.schema([table.schema.field(n) for n in names]))


def partition_rows(
    table: Table, partition: Partition, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition in these columns. Raises as `rows_of`."""
    key = partition.key
    schema = pa.schema([table.schema.field(name) for name in names])
    with open_partition(table, partition) as stream:
        try:
            file = open_slice(stream)
            for batch in _batches(file, stream, _stored(file, partition, names, key)):
                yield in_schema(batch, schema, partition.values, key=key)
        except (UnreadableSlice, *UNREADABLE, ValueError) as error:
            if isinstance(error, MemoryError):  # Arrow's memory error is an `ArrowException` too
                raise
            raise UnreadableDataFile(key, f"no Parquet: {str(error)[:200]}") from None


def open_partition(table: Table, partition: Partition) -> BinaryIO:
    """Open the data file of a partition. Raise `KartothekFileMissing`."""
    try:
        return table.store.open(partition.key)
    except KeyNotFound:
        named = f"there is no such data file (named by {table.found.key})"
        raise KartothekFileMissing(partition.key, named) from None


def _rows(table: Table, names: list[str], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
    terms = () if predicate is None else [term for some in predicate for term in some]
    needed = [*names, *(t.column for t in terms if t.column not in names)]
    needed = list(dict.fromkeys(needed))
    for partition in selected(table, predicate):
        for batch in partition_rows(table, partition, needed):
            rows = batch
            if predicate is not None:
                rows = batch.filter(mask_of(predicate, batch.column, batch.num_rows))
            if rows.num_rows:
                yield rows.select(names)


def _stored(
    file: pq.ParquetFile, partition: Partition, names: Sequence[str], key: str
) -> list[str]:
    """Return the columns to read from the file; values in its key take precedence."""
    there = file.schema_arrow.names
    wanted = [name for name in names if name in there and name not in partition.values]
    for name in wanted:
        if there.count(name) > 1:
            raise UnreadableDataFile(key, f"two of its columns are named {name[:100]!r}")
    return wanted


def _batches(file: pq.ParquetFile, stream: object, stored: list[str]) -> Iterator[pa.RecordBatch]:
    if stored:
        yield from batches_of(file, stream, columns=stored)  # type: ignore[arg-type]
        return
    rows = file.metadata.num_rows  # the file has none of the columns: only the row count matters
    if rows:
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])
