"""Files of a history, with the columns Spark has no type for as those it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...slices.conform import carrier


def carried(paths: Sequence[Path], schema: pa.Schema, folder: Path) -> list[Path]:
    """Files of the same rows that hold the columns of `schema` as Spark reads them.

    They are the same files if all types are Spark's own. What a file lacks it goes on to lack.
    """
    fields = pa.schema([field.with_type(carrier(field.type)) for field in schema])
    if fields.types == schema.types:
        return list(paths)
    folder.mkdir(parents=True, exist_ok=True)
    return [_rewritten(path, fields, folder / f"{at}.parquet") for at, path in enumerate(paths)]


def _rewritten(path: Path, fields: pa.Schema, target: Path) -> Path:
    with pq.ParquetFile(path) as file:
        there = pa.schema([field for field in fields if field.name in file.schema_arrow.names])
        with pq.ParquetWriter(target, there, compression="lz4", store_schema=False) as writer:
            for at in range(file.num_row_groups):
                group = file.read_row_group(at, columns=there.names)
                columns = [pc.cast(group.column(field.name), field.type) for field in there]
                writer.write_table(pa.Table.from_arrays(columns, schema=there))
    return target
