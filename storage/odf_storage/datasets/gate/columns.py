"""Compare the columns of a Parquet file with a schema, in any encoding that ODF writers use.

Names have to be the same, in any order. Layouts, units of time, zones and optionality differ from
engine to engine; numbers, texts and the shape of nested values do not.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from odf_protocol.arrow_schema import UnsupportedSchema, from_arrow
from odf_protocol.chain.schema_evolution import type_with_defaults
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataField, DataType

from ..contents.claims import Columns

SHOWN = 5
"""Limit of names that an error lists."""
SAME_WITHIN = (
    odf.DataTypeTimestamp,
    odf.DataTypeTime,
    odf.DataTypeDuration,
    odf.DataTypeDate,
    odf.DataTypeString,
    odf.DataTypeBinary,
)
"""Types whose forms count as equal, because readers convert between them."""


def difference(found: pa.Schema, columns: Columns) -> str | None:
    """Return what is wrong with the columns of a file as a sentence; None if nothing is wrong."""
    names = list(found.names)
    if len(set(names)) != len(names):
        return "two columns share one name"
    offset = columns.vocab.offset_column
    if offset not in names:
        return f"there is no offset column {offset!r}"
    try:
        actual = from_arrow(_without_dictionaries(found)).fields
    except UnsupportedSchema as unknown:
        return unknown.message
    declared = columns.schema.fields if columns.schema is not None else None
    if declared is not None:
        wanted = [field.name for field in declared]
        if problem := _names_differ(names, wanted):
            return problem
    return _system_differ(actual, columns) or _types_differ(actual, declared or (), columns)


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Replace dictionary types by their value types: a dictionary is only an encoding of the
    writer."""
    return pa.schema(
        field.with_type(field.type.value_type) if types.is_dictionary(field.type) else field
        for field in schema
    )


def _names_differ(found: Sequence[str], wanted: Sequence[str]) -> str | None:
    missing = [name for name in wanted if name not in set(found)]
    surplus = [name for name in found if name not in set(wanted)]
    parts = [
        f"{what} {', '.join(repr(name[:100]) for name in names[:SHOWN])}"
        for what, names in (("lacks", missing), ("has", surplus))
        if names
    ]
    return f"unlike the dataset's schema it {' and '.join(parts)}" if parts else None


def _system_differ(actual: Sequence[DataField], columns: Columns) -> str | None:
    offset, operation, system_time, event_time = columns.vocab.columns
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        offset: (_INTEGERS, "an integer"),
        operation: (_INTEGERS, "an integer"),
        system_time: ((odf.DataTypeTimestamp,), "a timestamp"),
        event_time: ((odf.DataTypeTimestamp, odf.DataTypeDate), "a timestamp or a date"),
    }
    for field in actual:
        wanted, what = kinds.get(field.name, ((object,), ""))
        if not isinstance(_plain(field.type), wanted):
            return f"column {field.name!r} is not {what}"
    return None


def _types_differ(
    actual: Sequence[DataField], declared: Sequence[DataField], columns: Columns
) -> str | None:
    found = {field.name: field.type for field in actual}
    for field in declared:
        if field.name in columns.vocab.columns:
            continue
        if not _fits(found[field.name], field.type):
            return (
                f"column {field.name!r} is {_type_name(found[field.name])} in the file and "
                f"{_type_name(field.type)} in the dataset's schema"
            )
    return None


def _fits(found: DataType, declared: DataType) -> bool:
    one, other = _plain(found), _plain(declared)
    if isinstance(one, odf.DataTypeNull):
        return True
    match one, other:
        case odf.DataTypeList(), odf.DataTypeList():
            return _fits(one.item_type, other.item_type)
        case odf.DataTypeMap(), odf.DataTypeMap():
            return _fits(one.key_type, other.key_type) and _fits(one.value_type, other.value_type)
        case odf.DataTypeStruct(), odf.DataTypeStruct():
            ours = {field.name: field.type for field in one.fields}
            theirs = {field.name: field.type for field in other.fields}
            same_names = ours.keys() == theirs.keys()
            return same_names and all(_fits(ours[name], theirs[name]) for name in ours)
    if type(one) is type(other) and isinstance(one, SAME_WITHIN):
        return True
    return type_with_defaults(one) == type_with_defaults(other)


def _plain(kind: DataType) -> DataType:
    return kind.inner if isinstance(kind, odf.DataTypeOption) else kind


def _type_name(kind: DataType) -> str:
    return type(_plain(kind)).__name__.removeprefix("DataType")


_INTEGERS = (
    odf.DataTypeInt8,
    odf.DataTypeInt16,
    odf.DataTypeInt32,
    odf.DataTypeInt64,
    odf.DataTypeUInt8,
    odf.DataTypeUInt16,
    odf.DataTypeUInt32,
    odf.DataTypeUInt64,
)
