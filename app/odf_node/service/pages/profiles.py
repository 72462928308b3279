"""Facts of the columns of datasets for their pages, kept for as long as no rows come.

When rows have come, a reader looks into the new slices only; the facts of older ones are kept. If
the new ones are many, it does so beside the page, and a later view shows the facts.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from anyio import to_thread

from odf_protocol.identity import DatasetId
from odf_protocol.typed import decode_json
from odf_storage.stores.ports.values import DatasetEntry

from ..read.beside import Beside
from ..read.read import Tables
from ..readers.materials import Materials
from ..readers.pool import Readers
from ..readers.tasks import Profiled, ProfileTask, TableRef

PAGE_STATISTICS_CELLS = 20_000_000
"""Most values that are read of new rows for statistics of columns on a page, where footers do not
say them; a column beyond that has those of a sample."""

REMEMBERED = 32
"""Number of datasets whose facts are kept; those of one take up to a megabyte."""
REST_S = 1.0
"""Pause before many slices are read, so that the page that asked is made first."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Facts, and what they are of."""

    columns: tuple[str, ...]
    table: TableRef
    found: Profiled

    def continues_in(self, table: TableRef, columns: tuple[str, ...]) -> bool:
        """Return whether the table is the same one, with more slices or none."""
        last = len(self.table.slices)
        return (
            self.columns == columns
            and self.table.schema == table.schema
            and self.table.slices[-1:] == table.slices[:last][-1:]
            and last <= len(table.slices)
        )


@dataclass(frozen=True)
class Profiles:
    """Makes and keeps facts of columns. Use it in the thread of the event loop."""

    tables: Tables
    readers: Readers
    cells: int
    """Limit of the values that are read for the facts of new slices."""
    max_bytes: int
    """Limit of the bytes of sample rows."""
    known: OrderedDict[DatasetId, _Known] = field(default_factory=OrderedDict)
    beside: Beside = field(default_factory=Beside)

    async def of(
        self, entry: DatasetEntry, caller: str, columns: tuple[str, ...], rows: int
    ) -> Profiled | None:
        """Return the facts of these columns, and about `rows` rows spread over the dataset; None
        while those of many slices are being made. Raises the same errors as `Readers.answer`."""
        table, objects = await to_thread.run_sync(self.tables.of, entry, None, ())
        before = self.known.get(entry.id)
        if before is not None and not before.continues_in(table, columns):
            before = None
        if before is not None and len(before.table.slices) == len(table.slices):
            self.known.move_to_end(entry.id)
            return before.found
        task = ProfileTask(
            table=table,
            columns=columns,
            known=None if before is None else before.found.profile,
            cells=self.cells,
            rows=rows,
            max_bytes=self.max_bytes,
        )
        return await self.beside.get(
            (entry.id, columns, table.head),
            lambda: self._made(entry.id, task, objects, caller),
            slices=len(table.slices) - (0 if before is None else len(before.table.slices)),
            rest_s=REST_S,
        )

    async def _made(
        self, dataset: DatasetId, task: ProfileTask, objects: Materials, caller: str
    ) -> Profiled:
        answer = await self.readers.answer(task, objects, caller)
        found = decode_json(b"".join([piece async for piece in answer]), Profiled)
        self.known[dataset] = _Known(task.columns, task.table, found)
        while len(self.known) > REMEMBERED:
            self.known.popitem(last=False)
        return found
