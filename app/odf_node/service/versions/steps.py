"""Compute the live rows in a view of a version from those of an earlier version, step by step.

The cost of a step depends on its new rows, and on the slices of the rows that they retract. The
first step starts with no live rows. Readers read rows and decide which are live by the rules of
`GET read`. The service keeps the index that finds a row by the hash of its values.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from anyio import to_thread

from odf_storage.datasets.kartothek.live_index import Live, LiveIndex, LiveIndexDamaged
from odf_storage.datasets.kartothek.matching import ROW, Offsets, Stands, moved_on
from odf_storage.datasets.kartothek.publication import content_hash
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.versions.histories import version_files
from odf_storage.datasets.versions.versions import Versions
from odf_storage.runtime.logs import line
from odf_storage.stores.keyed.below import Below
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.values import DatasetEntry

from ..read.read import Tables
from ..readers.materials import Materials
from ..readers.pool import Readers
from ..readers.tasks import StepTask, TableRef

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
