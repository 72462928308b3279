"""The Parquet reader: columns as they are, or picked by name and cast to a schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from protocol.errors import BadInput
from protocol.metadata.reading import ReadStepParquet

from .frame import BATCH_ROWS, BadInputSchema, BadRow, Frame, Limits, check_names
from .recast import can_recast, recast
from .rejected import Rejected, shown, sifted
from .text import BadValue


class MalformedParquet(BadInput):
    """The bytes are no Parquet file, or a damaged one."""


def read_parquet(
    _: ReadStepParquet,
    path: Path,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
) -> Frame | None:
    """Open a Parquet file.

    Raises:
        MalformedParquet: not readable as such, here or later from the batches.
        BadInputSchema: a column of the schema is not in the file, or cannot become its type.
    """
    if path.stat().st_size == 0:
        return None if schema is None else Frame.empty(schema)
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as bad:
        raise MalformedParquet(f"not a Parquet file: {bad}") from None
    stored = pa.schema([_plain(field) for field in file.schema_arrow])
    check_names(stored.names, limits)
    wanted = schema if schema is not None else stored
    for field in wanted:
        if field.name not in stored.names:
            raise BadInputSchema(f"the file has no column `{field.name}`", column=field.name)
        found = stored.field(field.name).type
        if not can_recast(found, field.type):
            raise BadInputSchema(
                f"column `{field.name}` is {found} in the file, which cannot become {field.type}",
                column=field.name,
            )
    return Frame(wanted, _batches(file, stored, wanted, rejected))


def _plain(field: pa.Field) -> pa.Field:
    """Without file-specific metadata and dictionary layout."""
    stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, stored, field.nullable)


def _batches(
    file: pq.ParquetFile, stored: pa.Schema, wanted: pa.Schema, rejected: Rejected | None
) -> Iterator[pa.RecordBatch]:
    done = 0
    try:
        for batch in file.iter_batches(BATCH_ROWS, columns=None):
            yield from sifted(
                batch.num_rows,
                partial(_converted, batch, stored, wanted, done),
                rejected,
                partial(shown, batch),
            )
            done += batch.num_rows
    except (pa.ArrowException, OSError) as bad:
        raise MalformedParquet(f"the Parquet file is damaged: {bad}") from None


def _converted(
    batch: pa.RecordBatch, stored: pa.Schema, wanted: pa.Schema, done: int, start: int, stop: int
) -> pa.RecordBatch:
    part = batch.slice(start, stop - start)
    columns = [
        _cast(part.column(stored.get_field_index(field.name)), field, done + start)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _cast(column: pa.Array, field: pa.Field, done: int) -> pa.Array:
    try:
        column = recast(column, field.type)
    except BadValue as bad:
        where = f"row {done + bad.index + 1} is not a value of type {field.type}"
        raise BadRow(where, column=field.name, value=bad.value) from None
    if not field.nullable and column.null_count:
        row = done + pc.index(pc.is_null(column), True).as_py() + 1
        raise BadRow(f"row {row} has no value in a required column", column=field.name)
    return column
