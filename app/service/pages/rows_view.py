"""Contents of the pages of all rows and all columns of a dataset."""

from __future__ import annotations

from typing import Any

from odf_node.protocol.errors import BadInput

from .cells import column_lines, fields_of
from .drawings import bars_path
from .sample import Sample, sample_page
from .statistics import ColumnFacts, facts_of
from .visit import Visit

ROWS = 100
MAX_NUMBER_CHARS = 19


class NoNumber(BadInput):
    """The address has no valid number of rows."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:50]!r} is no number of rows; say how many of the newest to skip")


def rows(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the rows before the newest `asked`. Raises `NoNumber`."""
    if not asked.isascii() or not asked.isdigit() or len(asked) > MAX_NUMBER_CHARS:
        raise NoNumber(asked)
    skip, count, state = int(asked), visit.state.num_records, visit.state
    found = sample_page(visit.views, visit.entry, visit.caller, skip=skip, limit=ROWS)
    most = visit.views.tails.max_records
    return {
        "skipped": skip,
        "count": count,
        "columns": list(found.columns),
        "rows": found.cells(ROWS, state.vocab.operation_type_column),
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


def column_table(visit: Visit, sample: Sample, most: int) -> list[dict[str, Any]]:
    """Return the first `most` columns: name, type, and statistics of the sample."""
    return [
        _row(field, line, sample)
        for field in fields_of(visit.state.data_schema)[:most]
        for line in column_lines(field["name"], field["type"])
    ][:most]


def _row(field: dict[str, Any], line: tuple[str, str], sample: Sample) -> dict[str, Any]:
    name, kind = line
    values = sample.columns.get(name) if name == field["name"] else None
    facts = ColumnFacts(0) if values is None else facts_of(field["type"], values)
    return {
        "name": name,
        "type": kind,
        "facts": facts if values else None,
        "bars": bars_path(facts.bars) if facts.bars else None,
    }
