"""Versions of a dataset, their history, and the rows that a view of a version does not show.

Readers read the slices for this, as for `GET read`, so the same rules decide which rows are live.
The results are stored beside the dataset: the next request opens no slice.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from anyio import to_thread

from odf_protocol.errors import Unavailable
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.formats import Format
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.read.view import Outline
from odf_storage.datasets.versions.dead_rows import DeadRowFiles, DeadRows, Missing
from odf_storage.datasets.versions.histories import Histories, History
from odf_storage.datasets.versions.versions import Versions
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.values import DatasetEntry

from ..read.read import ReadRequest, Tables, read_task
from ..readers.materials import Materials
from ..readers.pool import Readers
from ..readers.tasks import ChangedTask, SliceRef
from .steps import Steps

TRIES = 5
"""Limit of attempts to write a record that other services write concurrently."""


class HistoryBusy(Unavailable):
    """Other services keep changing the stored history, so that each attempt to write it failed."""

    def __init__(self) -> None:
        super().__init__("the history of the dataset is being looked at; ask again")


@dataclass(frozen=True)
class Versioned:
    """A dataset as of its head, with its versions and their history."""

    dataset: Dataset
    outline: Outline
    versions: Versions
    history: History

    def schema(self, number: int) -> DataSchema | None:
        """Return the schema of a version; of the head while there is no data."""
        version = self.versions[number] if len(self.versions) else None
        return self.dataset.state(version.block if version else self.outline.head).data_schema

    def changed_as_of(self, number: int, view: Projection) -> int | None:
        """Return the version whose missing rows equal those of version `number`; None if none miss.

        In the view `facts` a version that only adds rows hides none; in `state` each version may.
        """
        if view is Projection.CHANGELOG or not len(self.versions):
            return None
        if view is Projection.STATE:
            return number
        at = bisect_right(self.history.changed, number) - 1
        return self.history.changed[at] if at >= 0 else None


@dataclass(frozen=True)
class VersionReads:
    """Finds versions and their hidden rows. Use it in the thread of the event loop."""

    stores: Stores
    tables: Tables
    readers: Readers
    steps: Steps
    max_read_bytes: int
    dead_rows_bytes: int
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def of(self, entry: DatasetEntry, caller: str) -> Versioned:
        """Return the dataset as of its head; read the slices that the stored history does not
        cover.

        Raises:
            HistoryBusy, and the same errors as `Readers.answer`.
        """
        async with self._lock(str(entry.id)):
            for _ in range(TRIES):
                found = await self._look(entry, caller)
                if found is not None:
                    return found
        raise HistoryBusy

    async def first_changed(self, entry: DatasetEntry, caller: str) -> int | None:
        """Return the number of the first version with retractions; None if there is none. Raises
        the same errors as `of`."""
        changed = (await self.of(entry, caller)).history.changed
        return changed[0] if changed else None

    async def dead_rows(
        self, table: Versioned, number: int, view: Projection, caller: str
    ) -> DeadRows:
        """Return the rows that the view of a version does not show; compute them only once.

        Raises:
            TooManyDeadRows, and the same errors as `Readers.answer`.
        """
        changed = table.changed_as_of(number, view)
        if changed is None:
            return {}
        block = table.versions[changed].block
        projections, dataset = self.stores.projections, table.dataset.id
        files = DeadRowFiles(projections, dataset, self.dead_rows_bytes)
        async with self._lock(f"{block}.{view}"):
            known = await to_thread.run_sync(files.read, block, str(view))
            if known is None:
                known = await self._missing(table, changed, view, caller)
                await to_thread.run_sync(files.write, block, str(view), known)
        return known

    def _lock(self, name: str) -> asyncio.Lock:
        return self.locks.setdefault(name, asyncio.Lock())

    async def _look(self, entry: DatasetEntry, caller: str) -> Versioned | None:
        """Return the dataset; None if another service wrote the record meanwhile."""
        histories = Histories(self.stores.projections, entry.id)
        dataset = self.stores.dataset(DatasetRef(id=entry.id))

        def known() -> tuple[Outline, History, str | None]:
            outline, _ = self.tables.outlines.of(dataset, indexed=False)
            return outline, *histories.read()

        outline, history, tag = await to_thread.run_sync(known)
        versions = Versions(outline)
        is_same = history.is_of(versions)
        first = history.version + 1 if is_same else 0
        if is_same and first == len(versions):
            return Versioned(dataset, outline, versions, history)
        changed = await self._changed(entry, outline, versions, first, caller)
        continued = history.continued(versions, tuple(changed))
        try:
            await to_thread.run_sync(lambda: histories.write(continued, instead_of=tag))
        except SwapLost:
            return None
        return Versioned(dataset, outline, versions, continued)

    async def _changed(
        self, entry: DatasetEntry, outline: Outline, versions: Versions, first: int, caller: str
    ) -> list[int]:
        """Return versions from `first` on that have rows with an operation other than "added"."""
        if first == len(versions):
            return []
        task = ChangedTask(
            slices=[SliceRef.of(each.data) for each in versions[first:]],
            operation=outline.vocab.operation_type_column,
        )
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        source = Materials(dataset, self.stores.projections)
        answer = await self.readers.answer(task, source, caller)
        numbers = np.frombuffer(b"".join([piece async for piece in answer]), "<i8")
        return [first + int(number) for number in numbers]

    async def _missing(
        self, table: Versioned, number: int, view: Projection, caller: str
    ) -> DeadRows:
        entry, versions = table.dataset.entry, table.versions[: number + 1]
        missing = Missing([each.data for each in versions], self.dead_rows_bytes)
        async with self._lock(f"{entry.id}.{view}"):
            stands = await self.steps.standing(entry, table.versions, number, view, caller)
        if stands is not None:
            await to_thread.run_sync(lambda: missing.add(np.flatnonzero(stands)))
            return await to_thread.run_sync(missing.found)
        asked = ReadRequest(
            as_at=str(versions[-1].block),
            projection=view,
            columns=table.outline.vocab.offset_column,
            form=Format.CSV,
        )
        async for offsets in self._offsets(entry, asked, caller):
            await to_thread.run_sync(missing.add, offsets)
        return await to_thread.run_sync(missing.found)

    async def _offsets(
        self, entry: DatasetEntry, asked: ReadRequest, caller: str
    ) -> AsyncIterator[np.ndarray[Any, np.dtype[np.int64]]]:
        """Yield offsets of rows in pieces: the lines of a CSV file after its header."""
        task, source = await to_thread.run_sync(
            lambda: read_task(self.tables, entry, asked, max_bytes=self.max_read_bytes)
        )
        answer = await self.readers.answer(task, source, caller)
        rest, is_header = b"", True
        async for piece in answer:
            lines = (rest + piece).split(b"\r\n")
            rest = lines.pop()
            if is_header and lines:
                lines, is_header = lines[1:], False
            if lines:
                yield np.array(lines).astype(np.int64)
