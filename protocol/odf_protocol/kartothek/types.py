"""Arrow types in schema files, and the kinds of types that can be cast to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types

from .errors import UnsupportedColumn

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
