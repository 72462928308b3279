"""Data files of partitions that are no slice: without dead rows, or with columns added later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ..read.rows import Scan
from .fit import fitted
from .parts import Part
from .writer import write_data_file


def written_part(scan: Scan, part: Part, schema: pa.Schema, folder: Path) -> Path:
    """A file of the part's rows in all columns of the schema."""
    path = folder / f"{part.label}.parquet"
    write_data_file(path, schema, _batches(scan, part, schema))
    return path


def _batches(scan: Scan, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if part.source is None:
        return
    for batch in scan(None, part.offsets):
        columns = [
            fitted(batch.column(field.name), field.type, name=field.name, key=part.label)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
