"""Values of partition columns: parses and writes their texts in keys, by column type.

Source: Kartothek dataset format 4, "Partitions".

Arrow types in schema files, and the kinds of types that can be cast to each other.

The schema file of a table: a Parquet file without rows, with a metadata entry for pandas.

Source: Kartothek dataset format 4, "Schema file".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from ..columns.slice_file import UnreadableSlice, open_slice
from .keys import BadKartothek, MalformedPartition, UnsupportedColumn

INDEXABLE = ("bool", "integer", "float", "text", "date", "timestamp", "timestamp with zone")
"""Kinds of columns that get an index. Binary is not one, because other readers cut such values."""
_KINDS: tuple[tuple[str, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
    ("null", (types.is_null,)),
    ("bool", (types.is_boolean,)),
    ("integer", (types.is_integer,)),
    ("float", (types.is_floating,)),
    ("text", (types.is_string, types.is_large_string, types.is_string_view)),
    (
        "binary",
        (
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
            types.is_binary_view,
        ),
    ),
    ("date", (types.is_date,)),
    ("decimal", (types.is_decimal,)),
    ("time", (types.is_time,)),
    ("duration", (types.is_duration,)),
    (
        "list",
        (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        ),
    ),
    ("map", (types.is_map,)),
    ("struct", (types.is_struct,)),
)


def kind_of(found: pa.DataType) -> str:
    """Return `integer`, `text`, …; types of different kinds are never cast to each other.

    Raises:
        UnsupportedColumn: Kartothek datasets have no such type.
    """
    if types.is_dictionary(found):
        return kind_of(found.value_type)
    if types.is_timestamp(found):
        return "timestamp" if found.tz is None else "timestamp with zone"
    for kind, tests in _KINDS:
        if any(test(found) for test in tests):
            return kind
    raise UnsupportedColumn(f"a Kartothek dataset has no column of type {found}")


def plain(found: pa.DataType) -> pa.DataType:
    """Return the type without its layout: no dictionary, no large, view or fixed-size variant."""
    return _mapped(found, {"date": pa.date32()})


def normalised(found: pa.DataType) -> pa.DataType:
    """Return the type for a schema file: widest numbers, microseconds, no layout."""
    return _mapped(found, _WIDEST)


_WIDEST: dict[str, Any] = {
    "integer": lambda found: pa.int64() if types.is_signed_integer(found) else pa.uint64(),
    "float": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with zone": lambda found: pa.timestamp("us", found.tz),
}


def _mapped(found: pa.DataType, scalars: dict[str, Any]) -> pa.DataType:
    kind = kind_of(found)
    if types.is_dictionary(found):
        return _mapped(found.value_type, scalars)
    if kind == "text":
        return pa.string()
    if kind == "binary":
        return pa.binary()
    if kind == "list":
        return pa.list_(pa.field("element", _mapped(found.value_type, scalars)))
    if kind == "map":
        return pa.map_(_mapped(found.key_type, scalars), _mapped(found.item_type, scalars))
    if kind == "struct":
        members = [found.field(at) for at in range(found.num_fields)]
        return pa.struct([pa.field(each.name, _mapped(each.type, scalars)) for each in members])
    wanted = scalars.get(kind, found)
    return wanted(found) if callable(wanted) and not isinstance(wanted, pa.DataType) else wanted


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(
    r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|nan)", re.IGNORECASE | re.ASCII
)
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_BOOLS = {"true": True, "false": False}
_MAX_TEXT = 4096


def value_of(text: str, wanted: pa.DataType, key: str) -> pa.Scalar:
    """Parse the text of a value in a key; `wanted` is the type in the schema file.

    Raises:
        MalformedPartition: the text is not a value of the type.
    """
    try:
        return read_value(text, wanted)
    except ValueError as error:
        shown = text[:100].encode("utf-8", "replace").decode()
        raise MalformedPartition(
            key, f"the partition value {shown!r} is no {wanted}: {error}"
        ) from None


def read_value(text: str, wanted: pa.DataType) -> pa.Scalar:
    """Parse the text of a value of the type. Raises `ValueError`, with the reason."""
    read = _READ.get(kind_of(wanted))
    if read is None:
        raise ValueError("values of this type are not written as text")
    if len(text) > _MAX_TEXT:
        raise ValueError("it is too long")
    try:
        return read(text, wanted)
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise ValueError(str(error)[:200]) from None


def is_partitionable(kind: str) -> bool:
    """Return whether every reader can read values of such columns from keys."""
    return kind in _WRITE


def text_of(value: Any, kind: str) -> str:
    """Return the text of a value for a key, before percent-encoding.

    Raises:
        UnsupportedColumn: null, NaN, or a kind that other readers cannot read from keys.
    """
    write = _WRITE.get(kind)
    if write is None:
        raise UnsupportedColumn(f"a column of kind {kind} cannot be a partition column")
    if value is None or (isinstance(value, float) and isnan(value)):
        raise UnsupportedColumn("a partition column has no null and no NaN")
    return write(value)


def _bool(text: str, wanted: pa.DataType) -> pa.Scalar:
    if text.lower() not in _BOOLS:
        raise ValueError("True or False")
    return pa.scalar(_BOOLS[text.lower()], wanted)


def _integer(text: str, wanted: pa.DataType) -> pa.Scalar:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("digits, perhaps with a sign")
    return pa.scalar(int(text), wanted)


def _float(text: str, wanted: pa.DataType) -> pa.Scalar:
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("no number")
    return pa.scalar(float(text), pa.float64()).cast(wanted)


def _text(text: str, _: pa.DataType) -> pa.Scalar:
    text.encode()  # fails for surrogates, which stand for bytes that are not UTF-8
    return pa.scalar(text, pa.string())


def _binary(text: str, wanted: pa.DataType) -> pa.Scalar:
    return pa.scalar(text.encode("utf-8", "surrogateescape"), wanted)


def _decimal(text: str, wanted: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(text), wanted)


def _date(text: str, _: pa.DataType) -> pa.Scalar:
    day, clock, fraction, zone = _moment(text)
    if zone or clock not in ("", "00:00:00") or fraction:
        raise ValueError("a date has no time of day")
    return pa.scalar(date.fromisoformat(day), pa.date32())


def _timestamp(text: str, wanted: pa.DataType) -> pa.Scalar:
    day, clock, fraction, zone = _moment(text)
    if (wanted.tz is None) != (not zone):
        raise ValueError("a zone where none is, or none where one is")
    utc = zone.replace("Z", "+00:00") or "+00:00"
    second = datetime.fromisoformat(f"{day}T{clock or '00:00:00'}{utc}")
    since = second - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    nanos = (since.days * 86_400 + since.seconds) * 10**9 + int(fraction.ljust(9, "0"))
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[wanted.unit]
    if nanos % unit:
        raise ValueError(f"it is finer than {wanted.unit}")
    return pa.scalar(nanos // unit, pa.int64()).cast(wanted)


def _moment(text: str) -> tuple[str, str, str, str]:
    """Return day, time of day, digits of the fraction, and zone; absent parts are empty."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("not written as 2024-01-02 or 2024-01-02 03:04:05.678901")
    day, clock, fraction, zone = (part or "" for part in match.groups())
    return day, clock, fraction, zone


_READ: dict[str, Callable[[str, pa.DataType], pa.Scalar]] = {
    "bool": _bool,
    "integer": _integer,
    "float": _float,
    "text": _text,
    "binary": _binary,
    "date": _date,
    "decimal": _decimal,
    "timestamp": _timestamp,
    "timestamp with zone": _timestamp,
}


def _written_moment(value: datetime) -> str:
    return value.isoformat(" ")


_WRITE: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "True" if value else "False",
    "integer": str,
    "float": repr,
    "text": str,
    "date": lambda value: value.isoformat(),
    "timestamp": _written_moment,
}


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
        raise BadKartothek("MalformedSchemaFile", key, f"larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        found = open_slice(pa.py_buffer(raw)).schema_arrow
        fields = [pa.field(field.name, plain(field.type)) for field in found]
    except (UnreadableSlice, UnsupportedColumn) as error:
        raise BadKartothek("MalformedSchemaFile", key, error.message) from None
    except RecursionError:
        raise BadKartothek("MalformedSchemaFile", key, "a type is nested too deep") from None
    if len(set(found.names)) != len(found.names):
        raise BadKartothek("MalformedSchemaFile", key, "two columns have one name")
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
