"""The newest rows of a dataset for its pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import from_thread, to_thread

from odf_protocol.errors import NodeError
from odf_protocol.typed import decode_json
from odf_storage.stores.ports.values import DatasetEntry

from ..read.tail import last_rows
from ..readers.tasks import StandingTask
from .cells import cell_text
from .views import Views

ROWS = 20
"""Number of rows on the page of a dataset."""
SAMPLE_ROWS, SAMPLE_CELLS = 500, 10_000
"""Limits of rows and of cells in the sample for statistics."""
MAX_BYTES = 1024 * 1024
"""Limit in bytes of the rows of a page."""
OPERATIONS = ("added", "retracted", "corrected from", "corrected to")
"""Words for operation types, by their numbers."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows by offset, column by column, as JSON values; or `problem` if they cannot be read."""

    columns: dict[str, list[Any]]
    problem: str | None = None
    standing: int | None = None
    """Number of current rows, if rows were taken back."""
    is_unsure: bool = False
    """Whether it is not known yet if rows were taken back."""

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


def sample_size(columns: int) -> int:
    """Return the number of sample rows for statistics of so many columns."""
    return max(ROWS, min(SAMPLE_ROWS, SAMPLE_CELLS // max(1, columns)))


def newest(
    views: Views, entry: DatasetEntry, caller: str, *, skip: int, limit: int, changelog: bool
) -> Sample:
    """Return the `limit` current rows before the newest `skip`, or rows as they were recorded; the
    latter, too, while it is being looked for in many slices whether rows were taken back."""
    most = min(limit, views.tails.max_records)

    async def rows() -> Sample:
        takes_back = False if changelog else await views.current.takes_back_soon(entry, caller)
        if not takes_back:
            asked = partial(last_rows, views.tails, views.readers, entry, caller, skip=skip)
            recorded = await asked(limit=most, max_bytes=MAX_BYTES)
            return Sample(recorded, is_unsure=takes_back is None)
        table, objects = await to_thread.run_sync(views.tables.of, entry, None, ())
        task = StandingTask(table=table, skip=skip, limit=most, max_bytes=MAX_BYTES)
        answer = await views.readers.answer(task, objects, caller)
        text = b"".join([piece async for piece in answer])
        count, columns = decode_json(text, tuple[int, dict[str, list[Any]]])
        return Sample(columns, standing=count)

    try:
        return from_thread.run(rows)
    except NodeError as error:
        return Sample({}, error.message)


def _operation(value: Any) -> str | None:
    """Return the number of an operation with its word."""
    is_known = isinstance(value, int) and 0 <= value < len(OPERATIONS)
    return f"{value} {OPERATIONS[value]}" if is_known else cell_text(value)
