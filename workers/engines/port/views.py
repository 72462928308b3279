"""What stands of a changelog as SQL, in words that engines share: its state, its facts."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.storage.datasets.query.messages import Table, View

ADDED = (0, 3)
"""Codes of operations of rows that add; the others take a row back."""
Quote = Callable[[str], str]
"""A name as a name, in the dialect of an engine."""


class NoPrimaryKey(BadInput):
    """A state is asked for, and nothing says which rows are about the same thing."""


def view_sql(view: View, table: Table, base: str, quoted: Quote) -> str:
    """The rows of a view over the changelog `base`. Raises `NoPrimaryKey`."""
    return _SQL[view](table, quoted(base), quoted)


def columns_of(table: Table) -> pa.Schema:
    """Columns of the dataset; only those of every dataset are required, since rows of older slices
    may lack others."""
    ours = {table.offset, table.operation, table.system_time}
    schema = to_arrow(from_data(table.schema, DataSchema))
    return pa.schema(
        [field if field.name in ours else field.with_nullable(True) for field in schema]
    )


def _state(table: Table, base: str, quoted: Quote) -> str:
    """Of each primary key the row with the last offset, if it adds: `live_by_key` as SQL."""
    if not table.key:
        raise NoPrimaryKey(
            "no merge strategy of the dataset has a primary key, so it has no state; ask for its "
            f"changelog or its facts (…@{View.FACTS})"
        )
    schema = columns_of(table)
    columns = ", ".join(quoted(name) for name in schema.names)
    key = ", ".join(_same(name, schema, quoted) for name in table.key)
    operation, offset, last = quoted(table.operation), quoted(table.offset), quoted("?last?")
    return (
        f"SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY {key} "  # noqa: S608
        f"ORDER BY {offset} DESC) AS {last} FROM {base}) "
        f"WHERE {last} = 1 AND {operation} IN {ADDED}"
    )


def _same(name: str, schema: pa.Schema, quoted: Quote) -> str:
    """A column of a key, so that equal floats have equal bits: NaN is NaN, -0.0 is 0.0."""
    place = schema.get_field_index(name)
    if place < 0 or not pa.types.is_floating(schema.field(place).type):
        return quoted(name)
    return f"CASE WHEN isnan({quoted(name)}) THEN 'NaN' ELSE {quoted(name)} + 0.0 END"


def _facts(table: Table, base: str, quoted: Quote) -> str:
    """Rows that were added and not taken back: each row that takes back removes the oldest row
    before it that says the same. Of n rows that say the same, as many are left as would be in a
    queue in the end: the sum of steps, less its lowest value before."""
    ours = {table.offset, table.operation, table.system_time}
    names = columns_of(table).names
    columns = ", ".join(quoted(name) for name in names)
    said = ", ".join(quoted(name) for name in names if name not in ours) or "1"
    operation, offset = quoted(table.operation), quoted(table.offset)
    total, number, gone = quoted("?sum?"), quoted("?n?"), quoted("?gone?")
    adds = f"{operation} IN {ADDED}"
    step = f"CASE WHEN {adds} THEN 1 ELSE -1 END"
    one = f"CASE WHEN {adds} THEN 1 ELSE 0 END"
    same = f"PARTITION BY {said}"
    so_far = f"{same} ORDER BY {offset} ROWS UNBOUNDED PRECEDING"
    numbered = (
        f"SELECT *, sum({step}) OVER ({so_far}) AS {total}, "  # noqa: S608
        f"sum({one}) OVER ({so_far}) AS {number} FROM {base}"
    )
    left = f"sum({step}) OVER ({same}) - least(0, min({total}) OVER ({same}))"
    counted = f"SELECT *, max({number}) OVER ({same}) - ({left}) AS {gone} FROM ({numbered})"  # noqa: S608
    return f"SELECT {columns} FROM ({counted}) WHERE {adds} AND {number} > {gone}"  # noqa: S608


_SQL: dict[View, Callable[[Table, str, Quote], str]] = {View.STATE: _state, View.FACTS: _facts}
