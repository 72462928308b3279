"""Position delete files, which list the deleted rows of a data file. Source: Iceberg table
specification, "Position Delete Files"."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .manifests import DELETE_PATH_ID, DELETE_POS_ID

Positions = np.ndarray[Any, np.dtype[np.int64]]


def delete_file(path: str, positions: Positions) -> bytes:
    """Return a Parquet file with deleted rows of one file; `positions` ascend, from 0."""
    one_path = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(positions), np.int32)), pa.array([path])
    )
    table = pa.Table.from_arrays([one_path, pa.array(positions)], schema=_COLUMNS)
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, use_dictionary=["file_path"])
    return out.getvalue()


def _column(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})


_COLUMNS = pa.schema(
    [
        _column("file_path", pa.dictionary(pa.int32(), pa.string()), DELETE_PATH_ID),
        _column("pos", pa.int64(), DELETE_POS_ID),
    ]
)
