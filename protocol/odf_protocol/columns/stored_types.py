"""Types that correspond to an ODF data type outside of Arrow: in Parquet and in Spark.

Source: Parquet columns as the reference writer makes them; types as Spark 4 reads those.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..metadata import schema as odf
from ..metadata.schema import DataType, TimeUnit
from .arrow_schema import MAX_DECIMAL128_DIGITS, UnsupportedSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetType:
    """How the reference writer stores a type: physical type, annotation, repetition."""

    physical: str
    logical: str | None = None
    optional: bool = False


_NUMBERS: dict[type, tuple[ParquetType, str]] = {
    odf.DataTypeBool: (ParquetType(physical="BOOLEAN"), "boolean"),
    odf.DataTypeInt8: (ParquetType(physical="INT32", logical="INTEGER(8,true)"), "tinyint"),
    odf.DataTypeInt16: (ParquetType(physical="INT32", logical="INTEGER(16,true)"), "smallint"),
    odf.DataTypeInt32: (ParquetType(physical="INT32"), "int"),
    odf.DataTypeInt64: (ParquetType(physical="INT64"), "bigint"),
    odf.DataTypeUInt8: (ParquetType(physical="INT32", logical="INTEGER(8,false)"), "smallint"),
    odf.DataTypeUInt16: (ParquetType(physical="INT32", logical="INTEGER(16,false)"), "int"),
    odf.DataTypeUInt32: (ParquetType(physical="INT32", logical="INTEGER(32,false)"), "bigint"),
    odf.DataTypeUInt64: (
        ParquetType(physical="INT64", logical="INTEGER(64,false)"),
        "decimal(20,0)",
    ),
    odf.DataTypeFloat16: (
        ParquetType(physical="FIXED_LEN_BYTE_ARRAY(2)", logical="FLOAT16"),
        "binary",
    ),
    odf.DataTypeFloat32: (ParquetType(physical="FLOAT"), "float"),
    odf.DataTypeFloat64: (ParquetType(physical="DOUBLE"), "double"),
    odf.DataTypeString: (ParquetType(physical="BYTE_ARRAY", logical="STRING"), "string"),
    odf.DataTypeDate: (ParquetType(physical="INT32", logical="DATE"), "date"),
    odf.DataTypeDuration: (ParquetType(physical="INT64"), "bigint"),
}
"""Types without relevant parameters: how each is stored, and the type as which Spark reads it."""

_PARQUET_UNITS = {
    None: "MILLIS",
    TimeUnit.Millisecond: "MILLIS",
    TimeUnit.Microsecond: "MICROS",
    TimeUnit.Nanosecond: "NANOS",
}
"""Parquet has no unit for seconds, which are stored as plain numbers."""


def parquet_type(data_type: DataType) -> ParquetType:
    """Return how a value is stored in Parquet. Raises `UnsupportedSchema` for Null."""
    match data_type:
        case odf.DataTypeOption(inner=inner):
            stored = parquet_type(inner)
            return ParquetType(physical=stored.physical, logical=stored.logical, optional=True)
        case odf.DataTypeBinary(fixed_length=length):
            fixed = f"FIXED_LEN_BYTE_ARRAY({length})"
            return ParquetType(physical="BYTE_ARRAY" if length is None else fixed)
        case odf.DataTypeDecimal(precision=precision, scale=scale):
            return ParquetType(
                physical=_decimal_storage(precision), logical=f"DECIMAL({precision},{scale})"
            )
        case odf.DataTypeTime(unit=unit):
            fine = unit in (TimeUnit.Microsecond, TimeUnit.Nanosecond)
            return _time("INT64" if fine else "INT32", "TIME", unit, adjusted=False)
        case odf.DataTypeTimestamp(unit=unit):
            return _time("INT64", "TIMESTAMP", unit, adjusted=True)
        case odf.DataTypeList():
            return ParquetType(physical="group", logical="LIST")
        case odf.DataTypeMap():
            return ParquetType(physical="group", logical="MAP")
        case odf.DataTypeStruct():
            return ParquetType(physical="group")
        case odf.DataTypeNull():
            raise UnsupportedSchema("Parquet cannot store a column of type Null")
    return _NUMBERS[type(data_type)][0]


def _time(physical: str, name: str, unit: TimeUnit | None, *, adjusted: bool) -> ParquetType:
    if unit is TimeUnit.Second:
        return ParquetType(physical=physical)
    return ParquetType(
        physical=physical, logical=f"{name}({_PARQUET_UNITS[unit]},{str(adjusted).lower()})"
    )


def _decimal_storage(precision: int) -> str:
    if precision <= 9:
        return "INT32"
    if precision <= 18:
        return "INT64"
    width = ((10**precision - 1).bit_length() + 8) // 8  # with the sign bit, in whole bytes
    return f"FIXED_LEN_BYTE_ARRAY({width})"


def spark_type(data_type: DataType) -> str | None:
    """Return the type as which Spark reads a stored value; `?` means nullable, None unreadable."""
    match data_type:
        case odf.DataTypeOption(inner=inner):
            read = spark_type(inner)
            return None if read is None else read + "?"
        case odf.DataTypeBinary():
            return "binary"
        case odf.DataTypeDecimal(precision=precision, scale=scale):
            too_wide = precision > MAX_DECIMAL128_DIGITS
            return None if too_wide else f"decimal({precision},{scale})"
        case odf.DataTypeTime():
            return None
        case odf.DataTypeTimestamp(unit=unit):
            return None if unit is TimeUnit.Nanosecond else "timestamp"
        case odf.DataTypeList(item_type=item_type):
            return _spark_nested("array", ("", item_type))
        case odf.DataTypeMap(key_type=key_type, value_type=value_type):
            return _spark_nested("map", ("", key_type), ("", value_type))
        case odf.DataTypeStruct(fields=fields):
            return _spark_nested("struct", *((f.name + ":", f.type) for f in fields))
        case odf.DataTypeNull():
            return "void"
    return _NUMBERS[type(data_type)][1]


def _spark_nested(name: str, *parts: tuple[str, DataType]) -> str | None:
    read = [(label, spark_type(part)) for label, part in parts]
    if any(part is None for _, part in read):
        return None
    return f"{name}<{','.join(f'{label}{part}' for label, part in read)}>"
