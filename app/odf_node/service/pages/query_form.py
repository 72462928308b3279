"""The query form on the page of a dataset: its query, its rows, and links to files of the rows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from anyio import from_thread
from starlette.responses import Response

from odf_protocol.errors import NodeError
from odf_storage.datasets.query.messages import Form

from ..auth.actors import Actor
from ..query.answers import RowsAlone, gathered
from ..query.asked import IN_JSON, QueryBody, checked
from ..query.query import Queries

ROWS = 100
EXPORTS = tuple(form.value for form in Form if form not in IN_JSON)
"""Formats in which a visitor can download the rows."""


def answered(
    queries: Queries, actor: Actor, caller: str, text: str | None, *, alias: str
) -> dict[str, Any]:
    """Run the query and return the content of the form; `problem` is the message of an error.

    Without a text the form proposes a query and runs none.
    """
    shown: dict[str, Any] = {
        "text": text or f'select * from "{alias}" order by "offset" desc',  # noqa: S608 - shown, not run
        "is_asked": bool(text),
        "columns": [],
        "values": [],
        "inputs": [],
        "problem": None,
        "exports": [],
        "most": ROWS,
    }
    if not text:
        return shown
    body = QueryBody(query=text, data_format=Form.AOA.value, limit=ROWS)
    asked = checked(body, max_rows=queries.settings.query_max_rows)
    try:
        rows, data, _ = from_thread.run(gathered, queries, actor, caller, asked)
    except NodeError as error:
        return {**shown, "problem": error.message}
    return {
        **shown,
        "columns": [field.name for field in rows.schema.fields],
        "values": msgspec.json.decode(data),
        "inputs": [msgspec.to_builtins(pin) for pin in rows.pins],
        "exports": [(form, "?" + urlencode({"query": text, "format": form})) for form in EXPORTS],
    }


def taken_along(queries: Queries, actor: Actor, caller: str, text: str, form: str) -> Response:
    """Return all rows as a file. Raises `UnknownFormat`, and the same errors as `Queries.begin`."""
    body = QueryBody(query=text, data_format=form)
    most = queries.settings.query_max_rows
    asked = checked(body, max_rows=most)
    if asked.form in IN_JSON:
        asked = checked(QueryBody(query=text, data_format=Form.NDJSON.value), max_rows=most)
    rows = from_thread.run(queries.begin, actor, caller, asked)
    answer = RowsAlone(rows, asked.form)
    answer.headers["content-disposition"] = f'attachment; filename="rows.{asked.form.value}"'
    return answer
