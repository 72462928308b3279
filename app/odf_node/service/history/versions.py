"""Versions of a dataset, their history, and the rows that a view of a version does not show.

Readers read the slices for this, as for `GET read`, so the same rules decide which rows are live.
The results are stored beside the dataset: the next request opens no slice.

Compute the live rows in a view of a version from those of an earlier version, step by step.

The cost of a step depends on its new rows, and on the slices of the rows that they retract. The
first step starts with no live rows. Readers read rows and decide which are live by the rules of
`GET read`. The service keeps the index that finds a row by the hash of its values.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from anyio import to_thread

from odf_protocol.errors import Unavailable
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.kartothek.definition import content_hash
from odf_storage.datasets.kartothek.live_index import Live, LiveIndex, LiveIndexDamaged
from odf_storage.datasets.kartothek.matching import ROW, Offsets, Stands, moved_on
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.formats import Format
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.read.view import Outline
from odf_storage.datasets.versions.dead_rows import DeadRowFiles, DeadRows, Missing
from odf_storage.datasets.versions.versions import Histories, History, Versions, version_files
from odf_storage.runtime.logs import line
from odf_storage.stores.keyed.folder import Below
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.values import DatasetEntry

from ..read.read import ReadRequest, Tables, read_task
from ..readers.messages import Materials
from ..readers.pool import Readers
from ..readers.tasks import ChangedTask, SliceRef, StepTask, TableRef

DEAD_ROWS_INDEX_ROWS = 5_000_000
"""Most rows of a dataset for which an index is kept, some 16 bytes each, that finds what a new
block takes back; above, the whole dataset is read for such a block."""

_FOLDER = "standing"
_FORM = 1
"""Format number of the stored index; a change makes the service build it anew."""
_log = logging.getLogger("odf.versions")
NOTHING = Live(head="", stands=np.zeros(0, bool))


@dataclass(frozen=True, slots=True)
class _Begun:
    """A prepared step: the table to read, the source of objects, and the live rows before it."""

    table: TableRef
    objects: Materials
    index: LiveIndex
    known: Live
    total: int
    """Number of rows after the step."""
    view: Projection

    def task(self, touched: Offsets | None = None) -> StepTask:
        return StepTask(
            table=self.table,
            projection=str(self.view),
            first=len(self.known.stands),
            touched=None if touched is None else touched.astype("<i8").tobytes(),
        )

    def touched(self, asking: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Offsets:
        """Return the earlier live rows with one of the hashes. Raises `LiveIndexDamaged`."""
        found = self.index.find(asking)
        return found[self.known.stands[found]]


@dataclass(frozen=True)
class Steps:
    """Makes steps. Use it in the thread of the event loop, one step of a view at a time."""

    tables: Tables
    readers: Readers
    projections: KeyedStore
    most_rows: int
    """Limit of rows of a dataset for which an index is kept."""

    async def standing(
        self, entry: DatasetEntry, versions: Versions, number: int, view: Projection, caller: str
    ) -> Stands | None:
        """Return which rows are live in the version. Return None if the dataset has too many rows
        for an index, or if the index is of a later version.

        Raises the same errors as `Readers.answer`.
        """
        total = versions[number].data.offset_interval.end + 1
        if total > self.most_rows:
            return None
        begun = await to_thread.run_sync(self._begin, entry, versions, number, view)
        if len(begun.known.stands) > total:
            return None
        try:
            return await self._step(begun, caller)
        except LiveIndexDamaged as damaged:
            _log.warning(line("rows that stand are worked out anew", reason=damaged.message))
            begun.index.begin_anew()
            return await self._step(replace(begun, known=NOTHING), caller)

    def _begin(
        self, entry: DatasetEntry, versions: Versions, number: int, view: Projection
    ) -> _Begun:
        table, objects = self.tables.of(entry, versions[number].block, ())
        key = table.key if view is Projection.STATE else ()
        spec = content_hash(msgspec.json.encode([_FORM, key, table.schema, table.vocab]))
        files = version_files(self.projections, entry.id)
        index = LiveIndex(Below(files, f"{_FOLDER}/{view}"), spec)
        total = versions[number].data.offset_interval.end + 1
        return _Begun(table, objects, index, _known(index, versions), total, view)

    async def _step(self, begun: _Begun, caller: str) -> Stands:
        """Make the step and save its result. Raises `LiveIndexDamaged`."""
        before = begun.known.stands
        if len(before) == begun.total:
            return before
        answer = await self.readers.answer(begun.task(), begun.objects, caller)
        rows = np.frombuffer(await _whole(answer), ROW)
        touched = np.zeros(0, np.int64)
        if len(before):
            asking = rows["hash"][rows["asks"]]
            touched = await to_thread.run_sync(begun.touched, asking)
        answer = await self.readers.answer(begun.task(touched), begun.objects, caller)
        found = np.frombuffer(await _whole(answer), "<i8")
        stands = moved_on(before, begun.total, touched, found)
        live = Live(head=begun.table.head, stands=stands)
        try:
            await to_thread.run_sync(begun.index.save, live, rows["hash"], rows["offset"])
        except SwapLost:
            _log.info(line("another service keeps which rows stand", dataset=begun.table.head))
        return stands


def _known(index: LiveIndex, versions: Versions) -> Live:
    """Return the stored live rows if they are of this history; otherwise clear the index."""
    try:
        known = index.load()
    except LiveIndexDamaged as damaged:
        _log.warning(line("rows that stand are worked out anew", reason=damaged.message))
        known = None
    if known is not None and len(known.stands):
        [number] = versions.of_offsets([len(known.stands) - 1])
        if str(versions[number].block) == known.head:
            return known
    index.begin_anew()
    return NOTHING


async def _whole(answer: AsyncIterable[bytes]) -> bytes:
    return b"".join([piece async for piece in answer])


TRIES = 5
"""Limit of attempts to write a record that other services write concurrently."""


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
        raise Unavailable("HistoryBusy", "the history of the dataset is being looked at; ask again")

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
            slices=[SliceRef.of(data) for data, _ in outline.slices[first:]],
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
