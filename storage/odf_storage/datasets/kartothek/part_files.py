"""Data files of partitions that are not a slice: without dead rows, or with later columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from .fit import fitted
from .parts import Part
from .slice_values import Columns
from .writer import write_data_file


def written_part(data: Columns, part: Part, schema: pa.Schema, path: Path) -> Path:
    """Write a file with the rows of the part in all columns of the schema; return its path."""
    write_data_file(path, schema, _batches(data, part, schema))
    return path


def _batches(data: Columns, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if part.source is None:
        return
    for batch in data.scan(None, data.offsets_of(part)):
        columns = [
            fitted(batch.column(field.name), field.type, name=field.name, key=part.label)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
