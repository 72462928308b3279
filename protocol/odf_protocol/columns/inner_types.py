"""The types inside of lists, structs and maps: a list of them, and schemas with others in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Change = Callable[[pa.DataType, bool], pa.DataType]
"""From a type that has no other inside, and whether it is inside of another one."""
_LISTS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, pa.Field], pa.DataType]]]
_LISTS = [
    (pa.types.is_list, lambda _, inner: pa.list_(inner)),
    (pa.types.is_large_list, lambda _, inner: pa.large_list(inner)),
    (pa.types.is_fixed_size_list, lambda outer, inner: pa.list_(inner, outer.list_size)),
]


def innermost(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types that have no other inside; a plain type is one itself."""
    if kind.num_fields == 0:
        yield kind
    for at in range(kind.num_fields):
        yield from innermost(kind.field(at).type)


def changed_schema(schema: pa.Schema, change: Change) -> pa.Schema:
    """Return the schema with the types that `change` returns for those without others inside."""
    return pa.schema([_field(each, change, False) for each in schema], schema.metadata)


def _field(field: pa.Field, change: Change, is_inside: bool) -> pa.Field:
    return field.with_type(_type(field.type, change, is_inside))


def _type(kind: pa.DataType, change: Change, is_inside: bool) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_field(each, change, True) for each in kind])
    if pa.types.is_map(kind):
        key, item = (_field(each, change, True) for each in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    for is_one, made in _LISTS:
        if is_one(kind):
            return made(kind, _field(kind.value_field, change, True))
    return change(kind, is_inside)
