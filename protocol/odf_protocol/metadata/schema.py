"""The ODF schema of records: data types as a sealed union, fields, schemas.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "DataSchema", "DataType".

Base classes of all ODF structures: frozen, keyword-only, with camelCase names in text.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from .attributes import Attributes


class Table(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
    gc=False,
):
    """One table of the wire model: it has the name of the class, and slots in field order.

    Tables are frozen and so form no cycles; the garbage collector does not track them.
    """


class Variant(Table, frozen=True, tag_field="kind"):
    """A table that is a variant of a union; its text form includes `kind`."""


class TimeUnit(StrEnum):
    """Resolution of times. Wire values are the positions."""

    Second = "Second"
    Millisecond = "Millisecond"
    Microsecond = "Microsecond"
    Nanosecond = "Nanosecond"


class DataTypeBinary(Variant, tag="Binary", frozen=True, kw_only=True):
    """Bytes; `fixed_length` is their number when it never varies."""

    fixed_length: int | None = None


class DataTypeBool(Variant, tag="Bool", frozen=True, kw_only=True):
    pass


class DataTypeDate(Variant, tag="Date", frozen=True, kw_only=True):
    pass


class DataTypeDecimal(Variant, tag="Decimal", frozen=True, kw_only=True):
    """Exact number of `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int


class DataTypeDuration(Variant, tag="Duration", frozen=True, kw_only=True):
    """Elapsed time; no unit means milliseconds."""

    unit: TimeUnit | None = None


class DataTypeFloat16(Variant, tag="Float16", frozen=True, kw_only=True):
    pass


class DataTypeFloat32(Variant, tag="Float32", frozen=True, kw_only=True):
    pass


class DataTypeFloat64(Variant, tag="Float64", frozen=True, kw_only=True):
    pass


class DataTypeInt8(Variant, tag="Int8", frozen=True, kw_only=True):
    pass


class DataTypeInt16(Variant, tag="Int16", frozen=True, kw_only=True):
    pass


class DataTypeInt32(Variant, tag="Int32", frozen=True, kw_only=True):
    pass


class DataTypeInt64(Variant, tag="Int64", frozen=True, kw_only=True):
    pass


class DataTypeUInt8(Variant, tag="UInt8", frozen=True, kw_only=True):
    pass


class DataTypeUInt16(Variant, tag="UInt16", frozen=True, kw_only=True):
    pass


class DataTypeUInt32(Variant, tag="UInt32", frozen=True, kw_only=True):
    pass


class DataTypeUInt64(Variant, tag="UInt64", frozen=True, kw_only=True):
    pass


class DataTypeList(Variant, tag="List", frozen=True, kw_only=True):
    item_type: DataType
    fixed_length: int | None = None


class DataTypeMap(Variant, tag="Map", frozen=True, kw_only=True):
    key_type: DataType
    value_type: DataType
    keys_sorted: bool | None = None


class DataTypeNull(Variant, tag="Null", frozen=True, kw_only=True):
    pass


class DataTypeOption(Variant, tag="Option", frozen=True, kw_only=True):
    """A value that may be null; never nested directly."""

    inner: DataType


class DataTypeStruct(Variant, tag="Struct", frozen=True, kw_only=True):
    fields: tuple[DataField, ...]


class DataTypeTime(Variant, tag="Time", frozen=True, kw_only=True):
    """Time of day; no unit means milliseconds."""

    unit: TimeUnit | None = None


class DataTypeTimestamp(Variant, tag="Timestamp", frozen=True, kw_only=True):
    """Instant; no unit means milliseconds, no timezone means UTC."""

    unit: TimeUnit | None = None
    timezone: str | None = None


class DataTypeString(Variant, tag="String", frozen=True, kw_only=True):
    pass


class DataField(Table, frozen=True, kw_only=True):
    name: str
    type: DataType
    extra: Attributes | None = None


class DataSchema(Table, frozen=True, kw_only=True):
    fields: tuple[DataField, ...]
    extra: Attributes | None = None


DataType = (
    DataTypeBinary
    | DataTypeBool
    | DataTypeDate
    | DataTypeDecimal
    | DataTypeDuration
    | DataTypeFloat16
    | DataTypeFloat32
    | DataTypeFloat64
    | DataTypeInt8
    | DataTypeInt16
    | DataTypeInt32
    | DataTypeInt64
    | DataTypeUInt8
    | DataTypeUInt16
    | DataTypeUInt32
    | DataTypeUInt64
    | DataTypeList
    | DataTypeMap
    | DataTypeNull
    | DataTypeOption
    | DataTypeStruct
    | DataTypeTime
    | DataTypeTimestamp
    | DataTypeString
)


def bare_type(data_type: DataType) -> DataType:
    """Return a type without whether its values may be null."""
    return data_type.inner if isinstance(data_type, DataTypeOption) else data_type
