"""Decides whether one schema may follow another, and which columns the first one must have.

Columns and struct members are matched by name at every depth. New optional ones may be added
at any position, and attributes and order may change. Nothing may be removed, and no type or
optionality may change. The step from the old raw Arrow form to the ODF form ignores optionality,
once, because Arrow writers were careless about it. Source: ODF "SetDataSchema".

The columns of links that a chain has ever declared.

The attribute that makes a column a link may change with the schema, while the rows of earlier
slices stay as they are. So the newest schema alone does not tell what the rows of a chain link to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from msgspec.structs import replace

from ..errors import BadInput
from ..metadata.events import HashedBlock, SetDataSchema
from ..metadata.schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeDate,
    DataTypeDuration,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    TimeUnit,
    bare_type,
)
from ..references import link_columns

UTC = "UTC"
RAW_SCHEMAS_KEPT = 64
"""Number of cached conversions of raw Arrow schemas."""


def odf_schema(event: SetDataSchema) -> DataSchema:
    """Return the schema of the event in ODF form.

    Raises:
        BadInput: a raw Arrow schema that cannot be read or has no ODF counterpart.
    """
    if event.schema is not None:
        return event.schema
    return _converted(event.raw_arrow_schema or b"")


@lru_cache(maxsize=RAW_SCHEMAS_KEPT)
def _converted(raw: bytes) -> DataSchema:
    # Imported here because only chains of old writers need Arrow, which is slow to load.
    from ..columns.arrow_schema import decode_raw_arrow_schema, from_arrow

    return from_arrow(decode_raw_arrow_schema(raw))


def with_defaults(schema: DataSchema) -> DataSchema:
    """Return the schema with every default written out and attributes kept."""
    return replace(schema, fields=_fields_with_defaults(schema.fields))


def _fields_with_defaults(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
    return tuple(replace(field, type=type_with_defaults(field.type)) for field in fields)


def type_with_defaults(type_: DataType) -> DataType:
    """Write out the defaults: times in milliseconds, timestamps in UTC, maps unsorted."""
    match type_:
        case DataTypeTimestamp(unit=unit, timezone=zone):
            return DataTypeTimestamp(unit=unit or TimeUnit.Millisecond, timezone=zone or UTC)
        case DataTypeTime(unit=None):
            return DataTypeTime(unit=TimeUnit.Millisecond)
        case DataTypeDuration(unit=None):
            return DataTypeDuration(unit=TimeUnit.Millisecond)
        case DataTypeOption(inner=inner):
            return DataTypeOption(inner=type_with_defaults(inner))
        case DataTypeStruct(fields=fields):
            return DataTypeStruct(fields=_fields_with_defaults(fields))
        case DataTypeList(item_type=item):
            return replace(type_, item_type=type_with_defaults(item))
        case DataTypeMap(key_type=key, value_type=value):
            return DataTypeMap(
                key_type=type_with_defaults(key),
                value_type=type_with_defaults(value),
                keys_sorted=bool(type_.keys_sorted),
            )
        case _:
            return type_


def is_same(current: DataSchema, new: DataSchema) -> bool:
    """Return whether schemas are equal: attributes and order count, explicit defaults do not."""
    return with_defaults(current) == with_defaults(new)


def incompatibility(
    current: DataSchema,
    new: DataSchema,
    *,
    forgive_optionality: bool = False,
    only_aligned: bool = False,
) -> str | None:
    """Return why `new` may not follow `current`, as half a sentence; None if it may.

    With `only_aligned`, types are compared as reference peers do: not if columns or members
    were added or moved.
    """
    how = _Comparison(forgiving=forgive_optionality, only_aligned=only_aligned)
    return _fields_differ("", with_defaults(current).fields, with_defaults(new).fields, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    forgiving: bool
    only_aligned: bool


def _fields_differ(
    path: str, current: Sequence[DataField], new: Sequence[DataField], how: _Comparison
) -> str | None:
    before = {field.name: field for field in current}
    now = {field.name: field for field in new}
    if len(now) != len(new):
        return f"two columns{f' of {path}' if path else ''} share one name"
    look_at_types = not how.only_aligned or list(before) == list(now)
    for name, field in before.items():
        if name not in now:
            return f"column {path}{name} was removed"
        if not look_at_types:
            continue
        problem = _types_differ(path + name, field.type, now[name].type, how)
        if problem:
            return problem
    for name, field in now.items():
        if name not in before and not isinstance(field.type, DataTypeOption):
            return f"column {path}{name} was added and is not optional"
    return None


def _types_differ(path: str, current: DataType, new: DataType, how: _Comparison) -> str | None:
    if how.forgiving:
        current, new = bare_type(current), bare_type(new)
    match current, new:
        case DataTypeOption(), DataTypeOption():
            return _types_differ(path, current.inner, new.inner, how)
        case DataTypeOption(), _:
            return f"column {path} was optional and became required"
        case _, DataTypeOption():
            return f"column {path} was required and became optional"
        case DataTypeStruct(), DataTypeStruct():
            return _fields_differ(path + ".", current.fields, new.fields, how)
        case DataTypeList(), DataTypeList() if current.fixed_length == new.fixed_length:
            return _types_differ(path + "[]", current.item_type, new.item_type, how)
        case DataTypeMap(), DataTypeMap() if current.keys_sorted == new.keys_sorted:
            keys, values = path + "{key}", path + "{value}"
            return _types_differ(keys, current.key_type, new.key_type, how) or _types_differ(
                values, current.value_type, new.value_type, how
            )
        case _:
            return None if current == new else f"the type of column {path} changed"


def unfit_system_columns(schema: DataSchema, columns: tuple[str, str, str, str]) -> list[str]:
    """Return the faults of the system columns of a first schema, one half sentence each.

    `columns` are the effective names of offset, operation type, system time, event time.
    Offset and system time are never null; the others may be declared optional.
    """
    offset, operation, system_time, event_time = columns
    millis = DataTypeTimestamp(unit=TimeUnit.Millisecond, timezone=UTC)
    types: dict[str, DataType] = {}
    for field in with_defaults(schema).fields:
        types.setdefault(field.name, field.type)
    fits = (
        (offset, types.get(offset) == DataTypeInt64(), "Int64"),
        (operation, _inner(types.get(operation)) == DataTypeInt32(), "Int32"),
        (system_time, types.get(system_time) == millis, "Timestamp(Millisecond, UTC)"),
        (
            event_time,
            isinstance(_inner(types.get(event_time)), DataTypeDate | DataTypeTimestamp),
            "Date or Timestamp",
        ),
    )
    return [f"column {name} must be {what}" for name, fit, what in fits if not fit]


def _inner(type_: DataType | None) -> DataType | None:
    return None if type_ is None else bare_type(type_)


def all_link_columns(blocks: Iterable[HashedBlock]) -> tuple[str, ...]:
    """Return the columns that any schema among the blocks declares as links, each once."""
    found: dict[str, None] = {}
    for block in blocks:
        if isinstance(block.event, SetDataSchema):
            found.update(dict.fromkeys(declared_links(block.event)))
    return tuple(found)


def declared_links(event: SetDataSchema) -> tuple[str, ...]:
    """Return the columns that the schema declares as links."""
    try:
        return link_columns(odf_schema(event))
    except BadInput:  # this form of schema has no links
        return ()
