"""Conversion of ODF data types to Arrow types and back, and of the raw Arrow form of old blocks.

The conversion from ODF to Arrow loses nothing, and takes layouts (large, view, run-end) from the
hints in a field's `extra`. The conversion from Arrow to ODF drops layouts, because a schema
describes what values mean and not how a writer stored them in memory. It always writes units and
zones explicitly, because older readers interpreted an absent unit as seconds.
Source: ODF "DataSchema", "DataType"; hints as the reference writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types

from ..errors import BadInput
from ..metadata import schema as odf
from ..metadata.attributes import Attributes, MalformedAttributes
from ..metadata.schema import DataField, DataSchema, DataType, TimeUnit

KNOWN_SCHEMAS = 64
"""Number of cached schemas; every batch of a dataset converts the same one."""
MAX_NESTING = 64
"""Limit of nested types that are converted."""
MAX_RAW_SCHEMA_BYTES = 16 << 20
"""Limit in bytes of a raw Arrow schema that is read."""
MAX_DECIMAL128_DIGITS = 38

BUFFER_ENCODING = "arrow.apache.org/bufferEncoding"
DATE_ENCODING = "arrow.apache.org/dateEncoding"
DECIMAL_ENCODING = "arrow.apache.org/decimalEncoding"

_ARROW_UNITS = {
    TimeUnit.Second: "s",
    TimeUnit.Millisecond: "ms",
    TimeUnit.Microsecond: "us",
    TimeUnit.Nanosecond: "ns",
}
_ODF_UNITS = {arrow: unit for unit, arrow in _ARROW_UNITS.items()}


class UnsupportedSchema(BadInput):
    """A schema, or a type in it, has no counterpart on the other side."""


# --- ODF to Arrow ---------------------------------------------------------------------------


@lru_cache(KNOWN_SCHEMAS)
def to_arrow(schema: DataSchema) -> pa.Schema:
    """Return the Arrow schema of the same columns. Raises `UnsupportedSchema`."""
    return pa.schema([_arrow_field(field, 0) for field in schema.fields])


def to_arrow_type(data_type: DataType) -> tuple[pa.DataType, bool]:
    """Return the Arrow type, and whether values may be null. Raises `UnsupportedSchema`."""
    return _arrow_type(data_type, {}, 0)


_SAME: dict[type, Any] = {
    odf.DataTypeBool: pa.bool_(),
    odf.DataTypeFloat16: pa.float16(),
    odf.DataTypeFloat32: pa.float32(),
    odf.DataTypeFloat64: pa.float64(),
    odf.DataTypeInt8: pa.int8(),
    odf.DataTypeInt16: pa.int16(),
    odf.DataTypeInt32: pa.int32(),
    odf.DataTypeInt64: pa.int64(),
    odf.DataTypeUInt8: pa.uint8(),
    odf.DataTypeUInt16: pa.uint16(),
    odf.DataTypeUInt32: pa.uint32(),
    odf.DataTypeUInt64: pa.uint64(),
    odf.DataTypeNull: pa.null(),
}
"""Types without parameters that Arrow has too."""

_DECIMALS = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}


def _arrow_field(field: DataField, depth: int) -> Any:
    arrow_type, nullable = _arrow_type(field.type, _hints(field.extra), depth)
    return pa.field(field.name, arrow_type, nullable=nullable)


def _hints(extra: Attributes | None) -> dict[str, Any]:
    try:
        value = {} if extra is None else extra.value
    except MalformedAttributes:
        return {}
    return {key: hint for key, hint in value.items() if isinstance(hint, dict)}


def _arrow_type(data_type: DataType, hints: dict[str, Any], depth: int) -> tuple[Any, bool]:
    if depth > MAX_NESTING:
        raise UnsupportedSchema(f"types are nested deeper than {MAX_NESTING}")
    if isinstance(data_type, odf.DataTypeOption):
        if isinstance(data_type.inner, odf.DataTypeOption):
            raise UnsupportedSchema("an Option directly inside of an Option has no meaning")
        return _arrow_type(data_type.inner, hints, depth + 1)[0], True
    try:
        plain = _required(data_type, hints, depth)
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise UnsupportedSchema(f"Arrow has no {data_type}: {error}") from None
    buffers = hints.get(BUFFER_ENCODING, {})
    if buffers.get("kind") == "RunEnd":
        ends = {16: pa.int16(), 64: pa.int64()}.get(buffers.get("runEndsBitWidth"), pa.int32())
        plain = pa.run_end_encoded(ends, plain)
    return plain, isinstance(data_type, odf.DataTypeNull)


def _required(data_type: DataType, hints: dict[str, Any], depth: int) -> Any:
    match data_type:
        case odf.DataTypeString():
            return _layout(hints, pa.string(), pa.large_string(), pa.string_view())
        case odf.DataTypeBinary(fixed_length=None):
            return _layout(hints, pa.binary(), pa.large_binary(), pa.binary_view())
        case odf.DataTypeBinary(fixed_length=int(length)) if length >= 0:
            return pa.binary(length)
        case odf.DataTypeDate():
            unit = hints.get(DATE_ENCODING, {}).get("unit")
            return pa.date64() if unit == "Millisecond" else pa.date32()
        case odf.DataTypeDecimal(precision=precision, scale=scale):
            width = 128 if precision <= MAX_DECIMAL128_DIGITS else 256
            wanted = hints.get(DECIMAL_ENCODING, {}).get("bitWidth")
            return _DECIMALS.get(wanted, _DECIMALS[width])(precision, scale)
        case odf.DataTypeTime(unit=unit):
            short = _unit(unit)
            return (pa.time32 if short in ("s", "ms") else pa.time64)(short)
        case odf.DataTypeTimestamp(unit=unit, timezone=zone):
            return pa.timestamp(_unit(unit), zone if zone is not None else "UTC")
        case odf.DataTypeDuration(unit=unit):
            return pa.duration(_unit(unit))
    return _nested(data_type, depth)


def _nested(data_type: DataType, depth: int) -> Any:
    match data_type:
        case odf.DataTypeList(item_type=item_type, fixed_length=length) if (length or 0) >= 0:
            item, nullable = _arrow_type(item_type, {}, depth + 1)
            return pa.list_(pa.field("item", item, nullable), -1 if length is None else length)
        case odf.DataTypeMap(key_type=key_type, value_type=value_type, keys_sorted=keys_sorted):
            key, optional = _arrow_type(key_type, {}, depth + 1)
            if optional:
                raise UnsupportedSchema("keys of a Map cannot be optional")
            value, nullable = _arrow_type(value_type, {}, depth + 1)
            entry = pa.field("values", value, nullable)
            return pa.map_(pa.field("keys", key, nullable=False), entry, bool(keys_sorted))
        case odf.DataTypeStruct(fields=fields):
            return pa.struct([_arrow_field(field, depth + 1) for field in fields])
    if type(data_type) not in _SAME:
        raise UnsupportedSchema(f"Arrow has no {data_type}")
    return _SAME[type(data_type)]


def _unit(unit: TimeUnit | None) -> str:
    return _ARROW_UNITS[unit or TimeUnit.Millisecond]


def _layout(hints: dict[str, Any], plain: Any, large: Any, view: Any) -> Any:
    """Return the layout that the buffer hint requests."""
    hint = hints.get(BUFFER_ENCODING, {})
    if hint.get("kind") == "View":
        return view
    contiguous = hint.get("kind") == "Contiguous"
    return large if contiguous and hint.get("offsetBitWidth") == 64 else plain


# --- Arrow to ODF ---------------------------------------------------------------------------


def from_arrow(schema: pa.Schema) -> DataSchema:
    """Return the ODF schema of the same columns, without layouts and Arrow's metadata.

    Raises:
        UnsupportedSchema: interval, union, dictionary; the fact `column` names the column.
    """
    try:
        return DataSchema(fields=tuple(_odf_field(field, 0) for field in schema))
    except UnicodeDecodeError:
        raise UnsupportedSchema("a column name is not UTF-8") from None


def _odf_field(field: Any, depth: int) -> DataField:
    return DataField(name=field.name, type=_odf_type(field, field.name, depth))


def _odf_type(field: Any, column: str, depth: int) -> DataType:
    if depth > MAX_NESTING:
        raise UnsupportedSchema(f"types are nested deeper than {MAX_NESTING}", column=column)
    arrow_type = _unwrapped(field.type)
    plain = _odf_required(arrow_type, column, depth)
    if not field.nullable or isinstance(plain, odf.DataTypeNull):
        return plain
    return odf.DataTypeOption(inner=plain)


def _unwrapped(arrow_type: Any) -> Any:
    """Return the type of the values, without extension types and run-end encoding."""
    while True:
        if isinstance(arrow_type, pa.BaseExtensionType):
            arrow_type = arrow_type.storage_type
        elif types.is_run_end_encoded(arrow_type):
            arrow_type = arrow_type.value_type
        else:
            return arrow_type


def _odf_required(arrow_type: Any, column: str, depth: int) -> DataType:
    for matches, convert in _FROM_ARROW:
        if matches(arrow_type):
            return convert(arrow_type)
    if any(matches(arrow_type) for matches in _LISTS):
        return odf.DataTypeList(
            item_type=_odf_type(arrow_type.value_field, column, depth + 1),
            fixed_length=arrow_type.list_size if types.is_fixed_size_list(arrow_type) else None,
        )
    if types.is_struct(arrow_type):
        members = (arrow_type.field(position) for position in range(arrow_type.num_fields))
        return odf.DataTypeStruct(fields=tuple(_odf_field(m, depth + 1) for m in members))
    if types.is_map(arrow_type):
        return odf.DataTypeMap(
            key_type=_odf_type(arrow_type.key_field, column, depth + 1),
            value_type=_odf_type(arrow_type.item_field, column, depth + 1),
            keys_sorted=True if arrow_type.keys_sorted else None,
        )
    raise UnsupportedSchema(
        f"column {column!r} has the Arrow type {arrow_type}, which has no ODF type",
        column=column,
        type=str(arrow_type),
    )


_LISTS: tuple[Callable[[Any], bool], ...] = (
    types.is_list,
    types.is_large_list,
    types.is_list_view,
    types.is_large_list_view,
    types.is_fixed_size_list,
)
_FROM_ARROW: tuple[tuple[Callable[[Any], bool], Callable[[Any], DataType]], ...] = (
    *((arrow_type.__eq__, lambda _, kind=kind: kind()) for kind, arrow_type in _SAME.items()),
    (types.is_string, lambda _: odf.DataTypeString()),
    (types.is_large_string, lambda _: odf.DataTypeString()),
    (types.is_string_view, lambda _: odf.DataTypeString()),
    (types.is_binary, lambda _: odf.DataTypeBinary()),
    (types.is_large_binary, lambda _: odf.DataTypeBinary()),
    (types.is_binary_view, lambda _: odf.DataTypeBinary()),
    (types.is_decimal, lambda t: odf.DataTypeDecimal(precision=t.precision, scale=t.scale)),
    (types.is_fixed_size_binary, lambda t: odf.DataTypeBinary(fixed_length=t.byte_width)),
    (types.is_date, lambda _: odf.DataTypeDate()),
    (types.is_time, lambda t: odf.DataTypeTime(unit=_ODF_UNITS[t.unit])),
    (
        types.is_timestamp,
        lambda t: odf.DataTypeTimestamp(unit=_ODF_UNITS[t.unit], timezone=t.tz or None),
    ),
    (types.is_duration, lambda t: odf.DataTypeDuration(unit=_ODF_UNITS[t.unit])),
)


# --- the raw Arrow form ---------------------------------------------------------------------

_MESSAGE_BYTES = 40
"""Bytes before a raw schema in a message: root offset, vtable, `Message` table; 8-aligned."""
_MESSAGE_TABLE = 16
_METADATA_V5 = 4
_HEADER_IS_SCHEMA = 1


def decode_raw_arrow_schema(raw: bytes) -> pa.Schema:
    """Read a bare FlatBuffers `Schema` table, which old `SetDataSchema` blocks contain.

    Arrow reads schemas only as a part of an IPC message, so one is built around the table.

    Raises:
        MalformedArrowSchema: the bytes are not such a table.
    """
    if not 8 <= len(raw) <= MAX_RAW_SCHEMA_BYTES:
        raise UnsupportedSchema(
            "MalformedArrowSchema", f"an Arrow schema cannot have {len(raw)} bytes"
        )
    root = int.from_bytes(raw[:4], "little")
    if root >= len(raw):
        raise UnsupportedSchema(
            "MalformedArrowSchema", "the root of the Arrow schema lies behind its end"
        )
    vtable = struct.pack("<6H", 12, 24, 16, 18, 4, 8)  # sizes, then offsets of the four fields
    table = struct.pack(
        "<iIqhB5x",
        _MESSAGE_TABLE - 4,
        _MESSAGE_BYTES - _MESSAGE_TABLE - 4 + root,
        0,
        _METADATA_V5,
        _HEADER_IS_SCHEMA,
    )
    message = struct.pack("<I", _MESSAGE_TABLE) + vtable + table + raw + bytes(-len(raw) % 8)
    framed = struct.pack("<Ii", 0xFFFF_FFFF, len(message)) + message
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(framed))
        _decode_texts(schema)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise UnsupportedSchema(
            "MalformedArrowSchema", f"no readable Arrow schema: {str(error)[:200]}"
        ) from None
    return schema


def _decode_texts(schema: pa.Schema) -> None:
    """Decode names and zones at every level, which Arrow does not check. `UnicodeDecodeError`."""
    fields = list(schema)
    while fields:
        field = fields.pop()
        _ = field.name
        if types.is_timestamp(field.type):
            _ = field.type.tz
        fields.extend(field.type.field(position) for position in range(field.type.num_fields))
