"""Datasets as tables of DataFusion: the changelog as it lies in files, and what stands of it.

A table is a folder of links. It is empty while the query is planned; then it gets a link for each
slice that may hold rows of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.storage.datasets.query.messages import Table, View

from ..engines.datafusion.rows import quoted

ADDED = (0, 3)
"""Codes of operations of rows that add; the others take a row back."""


class NoPrimaryKey(BadInput):
    """A state is asked for, and nothing says which rows are about the same thing."""


def register(context: SessionContext, tables: Sequence[Table], scratch: Path) -> None:
    """Make the tables known, with no rows yet."""
    for number, table in enumerate(tables):
        folder(scratch, number).mkdir()
        base = _base_name(table, number)
        context.register_listing_table(
            quoted(base), f"{folder(scratch, number)}/", schema=columns_of(table)
        )
        for name, view in table.names.items():
            if view is not View.CHANGELOG:
                rows = context.sql(_SQL[view](table, quoted(base)))
                context.register_view(quoted(name), rows)


def base_names(tables: Sequence[Table]) -> dict[str, int]:
    """Names of changelogs in plans, with the number of the table."""
    return {_base_name(table, number): number for number, table in enumerate(tables)}


def view_names(tables: Sequence[Table]) -> frozenset[str]:
    return frozenset(name for table in tables for name in table.names)


def _base_name(table: Table, number: int) -> str:
    """The name the changelog is asked for by; one that no query can write, if none asks for it."""
    for name, view in table.names.items():
        if view is View.CHANGELOG:
            return name
    return f"?changelog {number}?"


def folder(scratch: Path, number: int) -> Path:
    return scratch / f"table-{number}"


def link(scratch: Path, number: int, paths: Sequence[str]) -> None:
    """Give a table its files. Their names keep the order of the slices."""
    for at, path in enumerate(paths):
        (folder(scratch, number) / f"{at:08}.parquet").symlink_to(path)


def columns_of(table: Table) -> pa.Schema:
    """Columns of the dataset; only those of every dataset are required, since rows of older slices
    may lack others."""
    ours = {table.offset, table.operation, table.system_time}
    schema = to_arrow(from_data(table.schema, DataSchema))
    return pa.schema(
        [field if field.name in ours else field.with_nullable(True) for field in schema]
    )


def _state(table: Table, base: str) -> str:
    """Of each primary key the row with the last offset, if it adds: `live_by_key` as SQL."""
    if not table.key:
        raise NoPrimaryKey(
            "no merge strategy of the dataset has a primary key, so it has no state; ask for its "
            f"changelog or its facts (…@{View.FACTS})"
        )
    schema = columns_of(table)
    columns = ", ".join(quoted(name) for name in schema.names)
    key = ", ".join(_same(name, schema) for name in table.key)
    operation, offset = quoted(table.operation), quoted(table.offset)
    return (
        f"SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY {key} "  # noqa: S608
        f'ORDER BY {offset} DESC) AS "?last?" FROM {base}) '
        f'WHERE "?last?" = 1 AND {operation} IN {ADDED}'
    )


def _same(name: str, schema: pa.Schema) -> str:
    """A column of a key, so that equal floats have equal bits: NaN is NaN, -0.0 is 0.0."""
    place = schema.get_field_index(name)
    if place < 0 or not pa.types.is_floating(schema.field(place).type):
        return quoted(name)
    return f"CASE WHEN isnan({quoted(name)}) THEN 'NaN' ELSE {quoted(name)} + 0.0 END"


def _facts(table: Table, base: str) -> str:
    """Rows that were added and not taken back: each row that takes back removes the oldest row
    before it that says the same. Of n rows that say the same, as many are left as would be in a
    queue in the end: the sum of steps, less its lowest value before."""
    ours = {table.offset, table.operation, table.system_time}
    names = columns_of(table).names
    columns = ", ".join(quoted(name) for name in names)
    said = ", ".join(quoted(name) for name in names if name not in ours) or "1"
    operation, offset = quoted(table.operation), quoted(table.offset)
    adds = f"{operation} IN {ADDED}"
    step = f"CASE WHEN {adds} THEN 1 ELSE -1 END"
    one = f"CASE WHEN {adds} THEN 1 ELSE 0 END"
    same = f"PARTITION BY {said}"
    so_far = f"{same} ORDER BY {offset} ROWS UNBOUNDED PRECEDING"
    numbered = (
        f'SELECT *, sum({step}) OVER ({so_far}) AS "?sum?", '  # noqa: S608
        f'sum({one}) OVER ({so_far}) AS "?n?" FROM {base}'
    )
    left = f'sum({step}) OVER ({same}) - least(0, min("?sum?") OVER ({same}))'
    counted = f'SELECT *, max("?n?") OVER ({same}) - ({left}) AS "?gone?" FROM ({numbered})'  # noqa: S608
    return f'SELECT {columns} FROM ({counted}) WHERE {adds} AND "?n?" > "?gone?"'  # noqa: S608


_SQL = {View.STATE: _state, View.FACTS: _facts}
