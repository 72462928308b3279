"""Pages of rows and of columns, for those that want more than the page of a dataset shows."""

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
    """A number of rows is expected in an address."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:50]!r} is no number of rows; say how many of the newest to skip")


def rows(visit: Visit, asked: str) -> dict[str, Any]:
    """The rows before the newest `asked`. Raises `NoNumber`."""
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
    """All columns with their members; statistics are on the page of the dataset."""
    lines = [
        line
        for field in fields_of(visit.state.data_schema)
        for line in column_lines(field["name"], field["type"])
    ]
    return {"lines": lines}


def column_table(visit: Visit, sample: Sample, most: int) -> list[dict[str, Any]]:
    """The first `most` columns: name, type, and what the sample says of them."""
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
