"""Limit the length and nesting of a query, counted in its text before an engine plans it.

Planners recurse into nested expressions and compare the items of a list with each other, so even a
short text can take much time or overflow the stack.

SQL for the views of a changelog, in the dialect that all engines share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odf_protocol.codec.manifests import from_data
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import SqlQueryStep
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.query.messages import QueryTable, TableView

from .port import InvalidQuery

_TEXTS = re.compile(
    r"(?s)'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|`(?:``|[^`])*`|--[^\n]*|/\*.*?(?:\*/|\Z)"
)
_TERMS = re.compile(
    r"(?i)[-+*/%|&^~<>=!:]+|\b(?:and|or|not|case|when|is|in|like|ilike|between|union|except|"
    r"intersect|join|from|lateral|select|over|interval|collate|at)\b|\.(?!\d)|[\[{(]"
)
"""The tokens that join two expressions or plans into one, or wrap one."""
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySize:
    """Limits of the queries of a transform: bytes and terms of all, nesting of brackets of each."""

    bytes: int = 256 << 10
    terms: int = 3_000
    depth: int = 100


def check_size(
    steps: Sequence[SqlQueryStep], most: QuerySize, *, setting: str = "ODF_WORKER_MAX_QUERY_BYTES"
) -> None:
    """Raise `InvalidQuery` if a limit of `most` is exceeded; `setting` names that of the bytes."""
    found = sum(len(step.query.encode("utf-8", "surrogatepass")) for step in steps)
    _check(found, most.bytes, f"bytes long; {most.bytes} are possible ({setting})", setting)
    codes = [_TEXTS.sub(" ", step.query) for step in steps]
    terms = sum(1 for code in codes for _ in _TERMS.finditer(code))
    _check(terms, most.terms, f"terms long; {most.terms} are possible")
    deepest = max(map(_depth, codes), default=0)
    _check(deepest, most.depth, f"brackets deep; {most.depth} are possible")


def _check(found: int, most: int, what: str, setting: str | None = None) -> None:
    if found > most:
        raise InvalidQuery(f"the query is {found} {what}", setting=setting)


def _depth(code: str) -> int:
    deepest = depth = 0
    for sign in code:
        if sign in _OPEN:
            depth += 1
            deepest = max(deepest, depth)
        elif sign in _CLOSE:
            depth -= 1
    return deepest


ADDED = (0, 3)
"""Operation codes of rows that add; rows with other codes take a row back."""
Quote = Callable[[str], str]
"""Quotes an identifier in the dialect of an engine."""


def view_sql(view: TableView, table: QueryTable, base: str, quoted: Quote) -> str:
    """Return the SQL of a view over the changelog `base`. Raise `NoPrimaryKey`."""
    return _SQL[view](table, quoted(base), quoted)


def columns_of(table: QueryTable) -> pa.Schema:
    """Return the columns of the dataset. Those that older slices may lack are nullable: a schema
    grows by such columns only."""
    return to_arrow(from_data(table.schema, DataSchema))


def _state(table: QueryTable, base: str, quoted: Quote) -> str:
    """Return SQL for the last row of each primary key, if that row adds: `live_by_key` as SQL."""
    if not table.key:
        raise BadInput(
            "NoPrimaryKey",
            "no merge strategy of the dataset has a primary key, so it has no state; ask for its "
            f"changelog or its facts (…@{TableView.FACTS})",
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


def _facts(table: QueryTable, base: str, quoted: Quote) -> str:
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


def _changelog(table: QueryTable, base: str, quoted: Quote) -> str:
    columns = ", ".join(quoted(name) for name in columns_of(table).names)
    return f"SELECT {columns} FROM {base}"  # noqa: S608


_SQL: dict[TableView, Callable[[QueryTable, str, Quote], str]] = {
    TableView.CHANGELOG: _changelog,
    TableView.STATE: _state,
    TableView.FACTS: _facts,
}
