"""Tables as frames of pandas, Polars and DuckDB, with the values that they have.

What such a library cannot hold is refused with the names of the columns, and what it cuts is
warned of: by themselves the libraries end in errors that name no column, abort, or say nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.columns.inner_types import changed_schema, innermost
from odf_protocol.errors import BadInput

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_DECIMAL_DIGITS = 38
"""Most digits of a decimal number of Polars and DuckDB."""


def for_polars(table: pa.Table) -> pa.Table:
    """Return the rows in types of Polars: zones that are an offset become UTC. Raises `BadInput`:
    a decimal has more than 38 digits."""
    _refuse("Polars", _columns(table.schema, _is_wide))
    return _cast(table, lambda kind, _: _named_zone(kind))


def for_duckdb(table: pa.Table) -> pa.Table:
    """Return the rows in types of DuckDB: floats of 16 bits become wider. Warns of instants that
    lose digits below a microsecond. Raises `BadInput`: a decimal has more than 38 digits."""
    _refuse("DuckDB", _columns(table.schema, _is_wide))
    cut = [name for name in _columns(table.schema, _is_fine) if _loses_digits(table[name])]
    if cut:
        told = "DuckDB cuts instants to microseconds, in the columns %s; .arrow() has all digits"
        warnings.warn(told % ", ".join(cut), stacklevel=4)
    return _cast(table, lambda kind, _: pa.float32() if pa.types.is_float16(kind) else kind)


def relation_of(connection: Any, table: pa.Table) -> duckdb.DuckDBPyRelation:
    """Return the rows as a relation of the connection, with the errors of `for_duckdb`.

    DuckDB 1.5 has Arrow filter a table, which orders floats in another way: NaN is lost to
    `x > 1`, -0.0 to `x IN (0.0)`, and null passes `x <= 'NaN'`. A limit keeps filters from it.
    """
    shown = for_duckdb(table)
    relation: duckdb.DuckDBPyRelation = connection.from_arrow(shown)
    has_floats = bool(_columns(shown.schema, pa.types.is_floating))
    return relation.limit(shown.num_rows) if has_floats else relation


def _refuse(library: str, columns: Sequence[str]) -> None:
    if columns:
        names = ", ".join(columns)
        raise BadInput(
            "UnknownToLibrary",
            f"{library} cannot hold the values of the columns {names[:500]}: leave them out by"
            " columns=[…], or take .arrow()",
            columns=list(columns),
        )


def _columns(schema: pa.Schema, is_one: Callable[[pa.DataType], bool]) -> list[str]:
    return [each.name for each in schema if any(map(is_one, innermost(each.type)))]


def _is_wide(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.precision > _DECIMAL_DIGITS


def _is_fine(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns" and kind.tz is not None


def _loses_digits(column: pa.ChunkedArray) -> bool:
    """Whether an instant has digits below a microsecond; inside of lists and structs it may."""
    if pa.types.is_nested(column.type):
        return True
    ticks = column.cast(pa.int64())
    whole = pc.multiply(pc.divide(ticks, 1_000), 1_000)
    return bool(pc.any(pc.not_equal(ticks, whole)).as_py())


def _named_zone(kind: pa.DataType) -> pa.DataType:
    is_offset = pa.types.is_timestamp(kind) and (kind.tz or "").startswith(("+", "-"))
    return pa.timestamp(kind.unit, "UTC") if is_offset else kind


def _cast(table: pa.Table, change: Callable[[pa.DataType, bool], pa.DataType]) -> pa.Table:
    schema = changed_schema(table.schema, change)
    return table if schema.equals(table.schema) else table.cast(schema)


def _is_shown_by_pandas(table: pa.Table, field: pa.Field) -> bool:
    if not any(kind == pa.time64("ns") for kind in innermost(field.type)):
        return True
    try:
        table.column(table.schema.names.index(field.name)).to_pandas()
    except pa.ArrowInvalid:
        return False
    return True


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as a frame. Whole numbers with nulls are nullable integers such as `Int64`,
    and those in lists and structs are integers beside `None`: by themselves they would become
    floats, which round numbers above 2^53. Raises `BadInput`: a time of day has nanoseconds."""
    import pandas as pd

    _refuse("pandas", [each.name for each in table.schema if not _is_shown_by_pandas(table, each)])
    frame: pd.DataFrame = table.replace_schema_metadata(None).to_pandas()
    for at, column in enumerate(table.columns):
        if column.null_count and pa.types.is_integer(column.type):
            word = "Int" if pa.types.is_signed_integer(column.type) else "UInt"
            kind = pd.api.types.pandas_dtype(f"{word}{column.type.bit_width}")
            frame.isetitem(at, column.to_pandas(types_mapper=lambda _, kind=kind: kind))
        elif pa.types.is_nested(column.type) and any(map(_loses_integers, column.chunks)):
            cells = pd.Series(map(_as_cell, column.to_pylist()), dtype=object)
            frame.isetitem(at, cells.set_axis(frame.index))
    return frame


def _loses_integers(values: pa.Array) -> bool:
    """Whether whole numbers stand beside nulls in nested values."""
    kind = values.type
    if pa.types.is_struct(kind):
        return any(_loses_integers(values.field(at)) for at in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _loses_integers(values.keys) or _loses_integers(values.items)
    if pa.types.is_nested(kind):
        return _loses_integers(values.values)
    return bool(pa.types.is_integer(kind)) and values.null_count > 0


def _as_cell(value: Any) -> Any:
    """Return a nested value as pandas has it: arrays for lists, dictionaries for structs."""
    import numpy as np

    if isinstance(value, dict):
        return {name: _as_cell(inner) for name, inner in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], tuple)):  # no map
        cell = np.empty(len(value), dtype=object)
        cell[:] = [_as_cell(inner) for inner in value]
        return cell
    return value
