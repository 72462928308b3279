"""The schema file of a table: a Parquet file without rows, with a metadata entry for pandas.

Source: Kartothek dataset format 4, "Schema file".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..slice_file import UnreadableSlice, open_slice
from .errors import MalformedSchemaFile, UnsupportedColumn
from .types import kind_of, normalised, plain

MAX_SCHEMA_BYTES = 16 << 20
"""Limit in bytes of a schema file that is read."""
PANDAS_VERSION = "1.5.3"
"""The pandas version named in the entry; readers use only the columns of the entry."""
_SAME_WORDS = ("bool", "int64", "uint64", "float64")


def table_schema(schema: pa.Schema, partition_keys: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of a table: normalised types, partition columns first, others by name.

    Raises:
        UnsupportedColumn: a type that a Kartothek dataset cannot have, or a partition column
            that does not exist.
    """
    missing = [name for name in partition_keys if name not in schema.names]
    if missing:
        raise UnsupportedColumn(f"there is no column {missing[0]!r} to partition on")
    others = sorted(name for name in schema.names if name not in partition_keys)
    names = [*partition_keys, *others]
    return pa.schema([pa.field(name, normalised(schema.field(name).type)) for name in names])


def encode_schema(schema: pa.Schema) -> bytes:
    """Return the schema file for a `table_schema`."""
    entry = {b"pandas": json.dumps(pandas_entry(schema)).encode()}
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema.with_metadata(entry), sink, version="2.6")
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def decode_schema(raw: bytes, key: str) -> pa.Schema:
    """Return the columns of a table in order, with declared types but without layouts.

    Raises:
        MalformedSchemaFile: no Parquet, too large, or columns that a table cannot have.
    """
    if len(raw) > MAX_SCHEMA_BYTES:
        raise MalformedSchemaFile(key, f"larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        found = open_slice(pa.py_buffer(raw)).schema_arrow
        fields = [pa.field(field.name, plain(field.type)) for field in found]
    except (UnreadableSlice, UnsupportedColumn) as error:
        raise MalformedSchemaFile(key, error.message) from None
    except RecursionError:
        raise MalformedSchemaFile(key, "a type is nested too deep") from None
    if len(set(found.names)) != len(found.names):
        raise MalformedSchemaFile(key, "two columns have one name")
    return pa.schema(fields)


def pandas_entry(schema: pa.Schema) -> dict[str, Any]:
    """Return the entry of the schema file for readers that create pandas data frames."""
    return {
        "index_columns": [],
        "column_indexes": [],
        "columns": [_column(field) for field in schema],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": PANDAS_VERSION,
    }


def _column(field: pa.Field) -> dict[str, Any]:
    pandas_type, numpy_type, metadata = _words(field.type)
    return {
        "name": field.name,
        "field_name": field.name,
        "pandas_type": pandas_type,
        "numpy_type": numpy_type,
        "metadata": metadata,
    }


def _words(found: pa.DataType) -> tuple[str, str, dict[str, Any] | None]:
    """Return the pandas type, the numpy type, and metadata that neither type contains."""
    kind, word = kind_of(found), _arrow_word(found)
    if word in _SAME_WORDS:
        return word, word, None
    if kind == "timestamp":
        return "datetime", "datetime64[ns]", None
    if kind == "timestamp with zone":
        return "datetimetz", "datetime64[ns]", {"timezone": found.tz}
    if kind == "decimal":
        return "decimal", "object", {"precision": found.precision, "scale": found.scale}
    if kind == "list":
        return f"list[{_words(found.value_type)[0]}]", "object", None
    return _NAMES.get(kind, word), "object", None


_NAMES = {"text": "unicode", "binary": "bytes", "date": "date", "null": "empty"}


def _arrow_word(found: pa.DataType) -> str:
    return {"double": "float64"}.get(str(found), str(found))
