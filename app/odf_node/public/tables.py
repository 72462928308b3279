"""Any frame as an Arrow table, and as the Parquet file that is posted.

What Arrow would take for other values than those of the frame, or cannot write, is an error that
names the column.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odf_protocol.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 1 << 17
"""Rows of a group: the first groups are looked at for a new dataset."""
_NOT_IN_ARROW = {
    "Object": "make it one of numbers, texts, times, structs or lists",
    "Int128": "cast it to Int64, or to Decimal(38, 0)",
    "UInt128": "cast it to UInt64, or to Decimal(38, 0)",
}
"""What to do with types of Polars, by their names."""
_ONE_STEP: dict[str, str] = {
    "Series": "it is one column: give a frame, `.to_frame()`",
    "LazyFrame": "it has no rows yet: give `.collect()` of it",
    "generator": "give a list of its dictionaries, `list(…)`",
}
"""What makes a table of what is none, by the name of its type."""


def table_of(data: Any) -> pa.Table:
    """Convert any frame to an Arrow table. Raises `NotATable`."""
    import pyarrow as pa

    kind, maker = type(data).__name__, type(data).__module__.partition(".")[0]
    if (step := _ONE_STEP.get(kind)) is not None:
        raise BadInput("NotATable", f"a {kind} is no table: {step}")
    try:
        if maker == "pandas":
            for name, column in data.items():
                if column.dtype == object:
                    _check_values(name, column)
            named = any(name is not None for name in data.index.names)
            return pa.Table.from_pandas(data, preserve_index=named).replace_schema_metadata(None)
        if isinstance(data, list):
            return _of_records(data)
        if maker == "polars":
            _check_polars(data.schema)
        return _with_plain_views(pa.table(data))
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as broken:
        raise BadInput(
            "NotATable", f"a {kind} cannot be read as a table: {str(broken)[:300]}"
        ) from broken


def _check_polars(columns: Mapping[str, Any]) -> None:
    """Raise `ValueError` for types that Polars gives to Arrow as something else: of objects of
    Python their addresses in memory (polars 2.1.0)."""
    for name, kind in columns.items():
        parts = [kind]
        while parts:
            part = parts.pop()
            if (advice := _NOT_IN_ARROW.get(str(part))) is not None:
                raise ValueError(f"column {name!r} is of the type {kind} of Polars: {advice}")
            inner = getattr(part, "inner", None)
            parts += [field.dtype for field in getattr(part, "fields", ())]
            parts += [] if inner is None else [inner]


def _with_plain_views(table: pa.Table) -> pa.Table:
    """Return the table with texts in place of categories whose names are views, as Polars has them,
    which pyarrow 26.0.1 writes to no file."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
            names = pa.chunked_array(
                [each.dictionary.cast(pa.string()).take(each.indices) for each in table[at].chunks],
                pa.string(),
            )
            table = table.set_column(at, field.with_type(pa.string()), names)
    return table


def _of_records(records: list[Any]) -> pa.Table:
    """Return a row for each dictionary, with the columns of all of them, which Arrow takes from the
    first one alone. Raises `TypeError`, `ValueError`, and errors of Arrow."""
    import pyarrow as pa

    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise TypeError(f"value {number} is a {type(record).__name__}, not a dictionary")
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {}
    for name in names:
        columns[str(name)] = values = [record.get(name) for record in records]
        _check_values(name, values)
    if len(columns) < len(names):
        raise ValueError("two columns have the same name as a text")
    return pa.table(columns)


_OF_64_BITS = range(-(2**63), 2**64)


def _check_values(name: object, values: Iterable[Any]) -> None:
    """Raise `ValueError` for values of Python that Arrow would take for others, or not at all."""
    zones = set()
    for value in _flat(values):
        if isinstance(value, datetime) and value == value:  # NaT is a datetime without a zone
            zones.add(value.tzinfo is None)
        elif type(value) is int and value not in _OF_64_BITS:
            raise ValueError(
                f"column {name!r} has the whole number {str(value)[:50]}, which has more than 64 "
                "bits: make the column one of decimal.Decimal, or of texts"
            )
    if len(zones) > 1:
        raise ValueError(f"column {name!r} has times with and without a zone: give all of them one")


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """Yield values, and those in lists and dictionaries."""
    for value in values:
        if isinstance(value, dict):
            yield from _flat(value.values())
        elif isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def of_index(data: Any) -> tuple[str, ...]:
    """Return a warning of an index of pandas that is left out and does not just count the rows."""
    if type(data).__module__.partition(".")[0] != "pandas":
        return ()
    import pandas as pd

    index = data.index
    counts = index.equals(pd.RangeIndex(len(index)))
    if counts or any(name is not None for name in index.names):
        return ()
    begin = ", ".join(map(str, index[:2].tolist()))
    told = f"the index of pandas ({begin[:100]}, …) has no name and is not stored"
    return (f"{told}: give it a name to store it as a column",)


@contextmanager
def parquet(table: pa.Table) -> Iterator[Path]:
    """Write the rows to a Parquet file, and yield its path. Raises `NotATable`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="publish-") as folder:
        path = Path(folder) / "rows.parquet"
        try:
            pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP_ROWS)
        except pa.ArrowException as broken:
            name = next((each for each in table.column_names if not _is_written(table, each)), "")
            raise BadInput(
                "NotATable",
                f"column {name!r} of the type {table.schema.field(name).type if name else None} "
                f"cannot be written as Parquet: {str(broken)[:200]}",
                column=name,
            ) from broken
        yield path


def _is_written(table: pa.Table, name: str) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.write_table(table.select([name]).slice(0, 1), pa.BufferOutputStream())
    except pa.ArrowException:
        return False
    return True
