"""The newest rows of a dataset for its pages, and the sample for statistics of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import from_thread

from odf_node.protocol.errors import NodeError
from odf_node.storage.stores.ports.values import DatasetEntry

from ..read.tail import last_rows
from ..readers.tasks import AnswerTooLong
from .cells import cell_text
from .views import Views

ROWS = 20
"""Number of rows on the page of a dataset."""
SAMPLE_ROWS, SAMPLE_CELLS = 500, 10_000
"""Limits of rows and of cells in the sample for statistics."""
SAMPLE_SLICES = 40
"""Approximate limit of slices that the sample reads."""
MAX_BYTES = 1024 * 1024
"""Limit in bytes of the rows of a page."""
OPERATIONS = ("added", "retracted", "corrected from", "corrected to")
"""Words for operation types, by their numbers."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows by offset, column by column, as JSON values; or `problem` if they cannot be read."""

    columns: dict[str, list[Any]]
    problem: str | None = None

    @property
    def count(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def cells(self, rows: int, operation: str) -> list[list[str | None]]:
        """Return the last rows, newest first; `operation` is the column whose numbers get words."""
        columns = {
            name: [_operation(value) for value in values[-rows:]]
            if name == operation
            else [cell_text(value) for value in values[-rows:]]
            for name, values in self.columns.items()
        }
        return [list(row) for row in reversed(list(zip(*columns.values(), strict=True)))]


def sample_size(columns: int, rows: int, slices: int) -> int:
    """Return the number of sample rows for a dataset of that shape."""
    in_slices = SAMPLE_SLICES * rows // max(1, slices)
    return max(ROWS, min(SAMPLE_ROWS, SAMPLE_CELLS // max(1, columns), in_slices))


def sample(views: Views, entry: DatasetEntry, caller: str, many: int) -> Sample:
    """Return the newest `many` rows, or as many as the page shows if those are too long."""
    try:
        return Sample(_rows(views, entry, caller, skip=0, limit=many))
    except AnswerTooLong:
        return sample_page(views, entry, caller, skip=0, limit=ROWS)
    except NodeError as error:
        return Sample({}, error.message)


def sample_page(views: Views, entry: DatasetEntry, caller: str, *, skip: int, limit: int) -> Sample:
    """Return the `limit` rows before the newest `skip`."""
    try:
        return Sample(_rows(views, entry, caller, skip=skip, limit=limit))
    except NodeError as error:
        return Sample({}, error.message)


def _rows(
    views: Views, entry: DatasetEntry, caller: str, *, skip: int, limit: int
) -> dict[str, list[Any]]:
    most = min(limit, views.tails.max_records)
    asked = partial(last_rows, views.tails, views.readers, entry, caller, skip=skip)
    return from_thread.run(partial(asked, limit=most, max_bytes=MAX_BYTES))


def _operation(value: Any) -> str | None:
    """Return the number of an operation with its word."""
    is_known = isinstance(value, int) and 0 <= value < len(OPERATIONS)
    return f"{value} {OPERATIONS[value]}" if is_known else cell_text(value)
