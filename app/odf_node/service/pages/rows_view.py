"""Contents of the pages of all rows and all columns of a dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anyio import from_thread

from odf_protocol.errors import BadInput, NodeError

from ..readers.tasks import Profiled
from .cells import column_lines, fields_of
from .drawings import bars_path
from .sample import newest, sample_size
from .statistics import facts_of
from .visit import Visit

ROWS = 100
MAX_NUMBER_CHARS = 19


class NoNumber(BadInput):
    """The address has no valid number of rows."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:50]!r} is no number of rows; say how many of the newest to skip")


def rows(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the current rows before the newest `asked`. Raises `NoNumber`."""
    return _page(visit, asked, changelog=False)


def changelog(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the rows as they were recorded before the newest `asked`. Raises `NoNumber`."""
    return _page(visit, asked, changelog=True)


def _page(visit: Visit, asked: str, *, changelog: bool) -> dict[str, Any]:
    if not asked.isascii() or not asked.isdigit() or len(asked) > MAX_NUMBER_CHARS:
        raise NoNumber(asked)
    skip, state = int(asked), visit.state
    found = newest(
        visit.views, visit.entry, visit.caller, skip=skip, limit=ROWS, changelog=changelog
    )
    count = state.num_records if found.standing is None else found.standing
    most = visit.views.tails.max_records
    return {
        "view": "changelog" if changelog else "rows",
        "records": state.num_records,
        "skipped": skip,
        "count": count,
        "columns": list(found.columns),
        "rows": found.cells(ROWS, state.vocab.operation_type_column),
        "is_unsure": found.is_unsure,
        "problem": found.problem,
        "newer": max(0, skip - ROWS) if skip else None,
        "older": skip + ROWS if skip + ROWS < min(count, most - ROWS + 1) else None,
        "most": most,
    }


def columns(visit: Visit, _: str) -> dict[str, Any]:
    """Return all columns with their members; the page of the dataset has the statistics."""
    lines = [
        line
        for field in fields_of(visit.state.data_schema)
        for line in column_lines(field["name"], field["type"])
    ]
    return {"lines": lines}


def column_table(visit: Visit, most: int) -> tuple[list[dict[str, Any]], Profiled | None, bool]:
    """Return the first `most` columns with name, type and statistics, what these are of, None if
    they cannot be told, and whether they are being made."""
    fields = fields_of(visit.state.data_schema)[:most]
    lines = [
        (field, line) for field in fields for line in column_lines(field["name"], field["type"])
    ]
    names = tuple(field["name"] for field in fields)
    try:
        found = from_thread.run(
            visit.views.profiles.of, visit.entry, visit.caller, names, sample_size(len(fields))
        )
        is_made = found is None
    except NodeError:
        found, is_made = None, False
    return [_row(field, line, found) for field, line in lines[:most]], found, is_made


def _row(field: dict[str, Any], line: tuple[str, str], found: Profiled | None) -> dict[str, Any]:
    name, kind = line
    facts, is_whole = None, False
    if found is not None and found.profile.rows and name == field["name"]:
        nulls, ends = found.profile.nulls.get(name), found.ends.get(name)
        is_whole = nulls is not None
        values = found.sample.get(name, [])
        if is_whole or values:
            facts = facts_of(field["type"], values, ends if is_whole else None)
            facts = facts if nulls is None else replace(facts, nulls=nulls)
    return {
        "name": name,
        "type": kind,
        "facts": facts,
        "is_whole": is_whole,
        "bars": bars_path(facts.bars) if facts is not None and facts.bars else None,
    }
