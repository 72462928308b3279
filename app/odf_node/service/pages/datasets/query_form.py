"""The query form on the page of a dataset: its query, the rows with their chart, links to files of
the rows, and examples that are made of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from anyio import from_thread
from starlette.responses import Response

from odf_protocol.errors import NodeError
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.sql_text import quoted_name
from odf_storage.datasets.query.messages import Form

from ....client.nodes.limits import place_in
from ...query.background import IN_JSON, QueryBody, checked
from ...query.verify import RowsAlone
from ..frame.cells import kinds_of
from .blocks import Visit
from .viewer import VALUES, asked_rows, plain_table

if TYPE_CHECKING:
    from ..frame.pictures import Figure

QUERY_ROWS = 100
EXAMPLE_ROWS = 20
EXPORTS = tuple(form.value for form in Form if form not in IN_JSON)
"""Formats in which a visitor can download the rows."""
COLUMNS = 50
"""More columns do not stand beside the form: the page would weigh too much, and has them above."""


@dataclass(frozen=True, slots=True)
class Telling:
    """The columns that tell most of a dataset: one to count by, and one of numbers."""

    category: str | None = None
    number: str | None = None


def answered(visit: Visit, text: str | None) -> dict[str, Any]:
    """Run the query and return the content of the form; `problem` is the message of an error, and
    `place` the line that it is about, with a mark below.

    Without a text the form proposes a query and runs none.
    """
    kinds, offset = kinds_of(visit.state.data_schema), visit.state.vocab.offset_column
    proposed = f"select * from {quoted_name(visit.alias)} order by {quoted_name(offset)} desc"  # noqa: S608 - shown, not run
    shown: dict[str, Any] = {
        "text": text or proposed,
        "is_asked": bool(text),
        "table": None,
        "figures": (),
        "inputs": [],
        "problem": None,
        "place": None,
        "exports": [],
        "most": QUERY_ROWS,
        "columns": [_column(visit.alias, *one) for one in kinds.items() if len(kinds) <= COLUMNS],
    }
    if not text:
        return shown
    try:
        values, rows = asked_rows(
            visit.views.queries, visit.actor, visit.caller, text, limit=QUERY_ROWS
        )
    except NodeError as error:
        return {**shown, "problem": error.message, "place": place_in(text, error.facts)}
    return {
        **shown,
        "table": plain_table(rows.schema, values),
        "figures": _chart(rows.schema, values),
        "inputs": [msgspec.to_builtins(pin) for pin in rows.pins],
        "exports": [(form, "?" + urlencode({"query": text, "format": form})) for form in EXPORTS],
    }


def _chart(schema: DataSchema, values: Sequence[Sequence[Any]]) -> tuple[Figure, ...]:
    from ..frame.pictures import SampledRows, chart  # not needed to start

    names = [field.name for field in schema.fields]
    columns = dict(zip(names, zip(*values, strict=True), strict=False))  # without rows no columns
    return chart(SampledRows(columns, kinds_of(schema)))


def taken_along(visit: Visit, text: str, form: str) -> Response:
    """Return all rows as a file. Raises `UnknownFormat`, and the same errors as `Queries.begin`."""
    queries = visit.views.queries
    body = QueryBody(query=text, data_format=form)
    most = queries.settings.query_max_rows
    asked = checked(body, max_rows=most)
    if asked.form in IN_JSON:
        asked = checked(QueryBody(query=text, data_format=Form.NDJSON.value), max_rows=most)
    rows = from_thread.run(queries.begin, visit.actor, visit.caller, asked)
    answer = RowsAlone(rows, asked.form)
    answer.headers["content-disposition"] = f'attachment; filename="rows.{asked.form.value}"'
    return answer


def _address(text: str) -> str:
    return f"?{urlencode({'query': text})}#query"


def _column(table: str, name: str, kind: str) -> dict[str, str | None]:
    """Return a column as queries write it, and the address of the query that counts its values."""
    return {
        "name": quoted_name(name),
        "kind": kind,
        "link": _address(_counting(table, name)) if kind in VALUES else None,
    }


def _counting(table: str, name: str) -> str:
    column, count = quoted_name(name), "counted" if name == "row_count" else "row_count"
    return (
        f"select {column}, count(*) as {count} from {quoted_name(table)} "  # noqa: S608 - a column
        f"group by 1 order by 2 desc, 1 limit {EXAMPLE_ROWS}"
    )


def examples(visit: Visit, chosen: Telling) -> list[tuple[str, str]]:
    """Return words and address of queries that tell something of the dataset: the newest rows,
    counts by a category, a number by month."""
    kinds, vocab = kinds_of(visit.state.data_schema), visit.state.vocab
    if not kinds:
        return []
    time = vocab.event_time_column if vocab.event_time_column in kinds else None
    newest, table = quoted_name(time or vocab.offset_column), quoted_name(visit.alias)
    found = [
        ("the newest rows", f"select * from {table} order by {newest} desc limit {EXAMPLE_ROWS}")  # noqa: S608 - columns
    ]
    if chosen.category is not None:
        found.append((f"rows by {chosen.category}", _counting(visit.alias, chosen.category)))
    if time and chosen.number is not None:
        value = f"cast({quoted_name(chosen.number)} as double)"
        text = (
            f"select date_trunc('month', {newest}) as month, sum({value}) as total, "  # noqa: S608 - columns
            f"avg({value}) as mean from {table} group by 1 order by 1"
        )
        found.append((f"{chosen.number} by month", text))
    return [(words, _address(text)) for words, text in found]
