"""The form of queries on the page of a dataset: what was asked, its rows, and files of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from anyio import from_thread
from starlette.responses import Response

from odf_node.protocol.errors import NodeError
from odf_node.storage.datasets.query.messages import Form

from ..auth.actors import Actor
from ..query.answers import RowsAlone, gathered
from ..query.asked import IN_JSON, QueryBody, checked
from ..query.query import Queries

ROWS = 100
EXPORTS = tuple(form.value for form in Form if form not in IN_JSON)
"""Formats in which the rows can be taken along."""


def answered(
    queries: Queries, actor: Actor, caller: str, text: str | None, *, alias: str
) -> dict[str, Any]:
    """What the form shows. Without a text it proposes one; `problem` says what is wrong with it."""
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
    """All rows in a file. Raises `UnknownFormat`, and as `Queries.begin`."""
    body = QueryBody(query=text, data_format=form)
    most = queries.settings.query_max_rows
    asked = checked(body, max_rows=most)
    if asked.form in IN_JSON:
        asked = checked(QueryBody(query=text, data_format=Form.NDJSON.value), max_rows=most)
    rows = from_thread.run(queries.begin, actor, caller, asked)
    answer = RowsAlone(rows, asked.form)
    answer.headers["content-disposition"] = f'attachment; filename="rows.{asked.form.value}"'
    return answer
