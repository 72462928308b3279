"""SQL for the views of a changelog, in the dialect that all engines share."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from odf_protocol.arrow_schema import to_arrow
from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.query.messages import Table, View

ADDED = (0, 3)
"""Operation codes of rows that add; rows with other codes take a row back."""
Quote = Callable[[str], str]
"""Quotes an identifier in the dialect of an engine."""


class NoPrimaryKey(BadInput):
    """The state is requested of a dataset without a primary key."""


def view_sql(view: View, table: Table, base: str, quoted: Quote) -> str:
    """Return the SQL of a view over the changelog `base`. Raise `NoPrimaryKey`."""
    return _SQL[view](table, quoted(base), quoted)


def columns_of(table: Table) -> pa.Schema:
    """Return the columns of the dataset. Those that older slices may lack are nullable: a schema
    grows by such columns only."""
    return to_arrow(from_data(table.schema, DataSchema))


def _state(table: Table, base: str, quoted: Quote) -> str:
    """Return SQL for the last row of each primary key, if that row adds: `live_by_key` as SQL."""
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
    """Return SQL for a key column in which equal floats have equal bits: one NaN, no -0.0."""
    place = schema.get_field_index(name)
    if place < 0 or not pa.types.is_floating(schema.field(place).type):
        return quoted(name)
    return f"CASE WHEN isnan({quoted(name)}) THEN 'NaN' ELSE {quoted(name)} + 0.0 END"


def _facts(table: Table, base: str, quoted: Quote) -> str:
    """Return SQL for the rows that were added and not taken back. A row that takes back removes
    the oldest earlier row with the same values. As many of these equal rows are left as in a
    queue: the sum of their steps (+1 or -1), less the lowest running sum if that is negative."""
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


def _changelog(table: Table, base: str, quoted: Quote) -> str:
    columns = ", ".join(quoted(name) for name in columns_of(table).names)
    return f"SELECT {columns} FROM {base}"  # noqa: S608


_SQL: dict[View, Callable[[Table, str, Quote], str]] = {
    View.CHANGELOG: _changelog,
    View.STATE: _state,
    View.FACTS: _facts,
}
