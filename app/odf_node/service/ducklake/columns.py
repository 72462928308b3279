"""The columns of a dataset as columns of DuckLake, with the names by which files have them.

Ids are given in the order in which the schemas of a chain first name columns, so they never change.
A column that readers of a lake would show as something else is left out, and said to be.

Source: DuckLake specification 1.0, "Data types", "ducklake_column", "ducklake_name_mapping".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odf_protocol.columns.column_ids import ColumnIds, Path, members, number_columns
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataSchema, DataType, TimeUnit

MOST_DIGITS = 38
_LOCAL = ""
"""Time zone of timestamps without a zone."""
_SAME: dict[type, str] = {
    odf.DataTypeBool: "boolean",
    odf.DataTypeInt8: "int8",
    odf.DataTypeInt16: "int16",
    odf.DataTypeInt32: "int32",
    odf.DataTypeInt64: "int64",
    odf.DataTypeUInt8: "uint8",
    odf.DataTypeUInt16: "uint16",
    odf.DataTypeUInt32: "uint32",
    odf.DataTypeUInt64: "uint64",
    odf.DataTypeFloat16: "float32",
    odf.DataTypeFloat32: "float32",
    odf.DataTypeFloat64: "float64",
    odf.DataTypeString: "varchar",
    odf.DataTypeBinary: "blob",
    odf.DataTypeDate: "date",
    odf.DataTypeDuration: "int64",
    odf.DataTypeNull: "int32",
}


class NotShown(NamedTuple):
    """What a lake does not show of a dataset: the whole, or a part."""

    dataset: str
    part: str
    reason: str


class LakeColumn(NamedTuple):
    """A row of `ducklake_column`, before versions are snapshots. `parent` is the id of the outer
    column."""

    id: int
    order: int
    name: str
    type: str
    parent: int | None


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column from one version on, until another one."""

    column: LakeColumn
    begin: int
    end: int | None


class LakeColumns:
    """The columns of one dataset over its versions. Raises `ValueError` if it has none to show, or
    some that differ by case only."""

    def __init__(self, schemas: Sequence[tuple[int, DataSchema]]) -> None:
        """`schemas` have the number of the version from which on they hold, oldest first."""
        self._ids: ColumnIds = {}
        self.all: list[ShownColumn] = []
        self.notes: dict[str, str] = {}
        """What is not shown of columns, and why, by name."""
        self.changes: list[int] = []
        """Versions that change columns."""
        living: dict[int, tuple[LakeColumn, int]] = {}
        for begin, schema in schemas:
            number_columns(self._ids, schema.fields)
            self.notes = {}
            now = {column.id: column for column in self._columns(schema)}
            _check(now.values())
            gone = [at for at, (column, _) in living.items() if now.get(at) != column]
            for at in gone:
                column, since = living.pop(at)
                self.all.append(ShownColumn(column, since, begin))
            new = {at: (column, begin) for at, column in now.items() if at not in living}
            living |= new
            if begin and (gone or new):
                self.changes.append(begin)
        self.all += [ShownColumn(column, since, None) for column, since in living.values()]

    def mapping(self) -> Iterator[tuple[int, str, int, int | None]]:
        """Yield number, name in files, column and outer number of each column of the newest schema.

        Numbers are those of the columns.
        """
        kinds = {each.column.id: each.column.type for each in self.all if each.end is None}
        for each in self.all:
            if each.end is None:
                column = each.column
                is_item = column.parent is not None and kinds[column.parent] == "list"
                yield column.id, "list" if is_item else column.name, column.id, column.parent

    def _columns(self, schema: DataSchema) -> Iterator[LakeColumn]:
        for order, field in enumerate(schema.fields):
            try:
                yield from list(self._column((field.name,), order, field.type, None))
            except ValueError as bad:
                self.notes[field.name] = str(bad)

    def _column(
        self, path: Path, order: int, data_type: DataType, parent: int | None
    ) -> Iterator[LakeColumn]:
        if isinstance(data_type, odf.DataTypeOption):
            data_type = data_type.inner
        if _is_cut(data_type):
            self.notes[path[0]] = "is shown without the digits below a microsecond"
        at = self._ids[path]
        yield LakeColumn(at, order, path[-1], _type(data_type), parent)
        inside = members(data_type)
        if len({name.lower() for name, _ in inside}) < len(inside):
            raise ValueError("has members whose names differ by case only")
        for number, (name, inner) in enumerate(inside):
            yield from self._column((*path, name), number, inner, at)


def _check(columns: object) -> None:
    names = [each.name.lower() for each in columns if each.parent is None]  # type: ignore[attr-defined]
    if not names:
        raise ValueError("it has no column that a lake can show")
    if len(set(names)) < len(names):
        raise ValueError("it has columns whose names differ by case only")


def _type(data_type: DataType) -> str:
    match data_type:
        case odf.DataTypeDecimal(precision=precision, scale=scale):
            if precision > MOST_DIGITS:
                raise ValueError(f"a lake has no decimals above {MOST_DIGITS} digits")
            return f"decimal({precision},{scale})"
        case odf.DataTypeTimestamp(timezone=zone, unit=unit):
            if zone != _LOCAL:
                return "timestamptz"
            return "timestamp_ns" if unit is TimeUnit.Nanosecond else "timestamp"
        case odf.DataTypeTime(unit=TimeUnit.Nanosecond):
            raise ValueError("a lake has no times of day in nanoseconds")
        case odf.DataTypeTime():
            return "time"
        case odf.DataTypeStruct(fields=fields):
            if not fields:
                raise ValueError("a lake has no structs without members")
            return "struct"
        case odf.DataTypeList():
            return "list"
        case odf.DataTypeMap():
            return "map"
    return _SAME[type(data_type)]


def _is_cut(data_type: DataType) -> bool:
    is_instant = isinstance(data_type, odf.DataTypeTimestamp) and data_type.timezone != _LOCAL
    return is_instant and getattr(data_type, "unit", None) is TimeUnit.Nanosecond
