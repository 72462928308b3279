"""Ids of columns and of what is inside them, for formats that name columns by number."""

from __future__ import annotations

from collections.abc import Sequence

from ..metadata import schema as odf
from ..metadata.schema import DataField, DataType

Path = tuple[str, ...]
"""The names from a column down to a member."""
ColumnIds = dict[Path, int]


def number_columns(ids: ColumnIds, fields: Sequence[DataField]) -> None:
    """Give ids to the columns of a schema that have none, level by level. Ids never change if the
    schemas of a chain are numbered in their order."""
    level: list[tuple[Path, DataType]] = [((each.name,), each.type) for each in fields]
    while level:
        for path, _ in level:
            ids.setdefault(path, len(ids) + 1)
        level = [((*path, name), inner) for path, each in level for name, inner in members(each)]


def members(data_type: DataType) -> list[tuple[str, DataType]]:
    """Return what is directly inside a type: members of a struct, `element` of a list, `key` and
    `value` of a map."""
    match data_type:
        case odf.DataTypeOption(inner=inner):
            return members(inner)
        case odf.DataTypeStruct(fields=fields):
            return [(each.name, each.type) for each in fields]
        case odf.DataTypeList(item_type=item):
            return [("element", item)]
        case odf.DataTypeMap(key_type=key, value_type=value):
            return [("key", key), ("value", value)]
    return []
