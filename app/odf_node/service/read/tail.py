"""Plan how a reader reads the last records of a dataset, from its newest slices only.

If a dataset has no rows that were taken back, its changelog is its current rows. A node keeps with
each dataset which of its blocks retract or correct rows (`versions`), so only slices that came
since are looked into. Blocks never change, so answers are remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from anyio import to_thread

from odf_protocol.errors import LimitExceeded, NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.records import DataFormat
from odf_storage.datasets.read.view import Outline
from odf_storage.runtime.logs import line
from odf_storage.stores.ports.values import DatasetEntry

from ..readers.messages import Materials
from ..readers.pool import Readers
from ..readers.tasks import SliceRef, TailTask, schema_data
from .outlines import Beside, Outlines
from .read import CHANGELOG, ReadRequest

MAX_TAIL_BYTES = 32 << 20
"""Most bytes of records answered by one tail request or look-up; more: 413."""

MAX_TAIL_RECORDS = 10_000
"""Most records answered (skipped ones included) by one tail request, or by one look-up."""

BLOCKS_A_LOOK = 100


@dataclass(frozen=True)
class Tails:
    """The stores of last records, and the limits of one request."""

    stores: Stores
    max_records: int
    max_bytes: int


def tail_task(
    tails: Tails,
    entry: DatasetEntry,
    *,
    skip: int,
    limit: int,
    shape: DataFormat,
    max_bytes: int | None = None,
) -> tuple[TailTask, Materials, DataSchema | None]:
    """Plan to read the `limit` records before the last `skip`, in offset order, as JSON of a shape.

    Return the task of a reader, the source of its objects, and the schema.

    Raises:
        TooManyRecords: `skip + limit` above the node's limit.
    """
    most = tails.max_records
    if skip + limit > most:
        raise LimitExceeded(
            "TooManyRecords",
            f"skip and limit may add up to {most}; page through offsets instead",
            limit=most,
        )
    dataset = tails.stores.dataset(DatasetRef(id=entry.id))
    schema = dataset.state(dataset.head()).data_schema
    slices, left = _newest_slices(tails.stores, entry, skip, limit)
    task = TailTask(
        slices=[SliceRef.of(piece) for piece in reversed(slices)],
        schema=schema_data(schema),
        skip=left,
        limit=limit,
        shape=shape.value,
        max_bytes=tails.max_bytes if max_bytes is None else max_bytes,
    )
    return task, Materials(dataset, tails.stores.projections), schema


async def last_rows(
    tails: Tails,
    readers: Readers,
    entry: DatasetEntry,
    caller: str,
    *,
    skip: int,
    limit: int,
    max_bytes: int,
) -> dict[str, list[Any]]:
    """Return the `limit` records before the last `skip`, as JSON values, column by column.

    Raises:
        TooManyRecords, and the same errors as `Readers.answer`.
    """
    plan = partial(
        tail_task, tails, entry, skip=skip, limit=limit, shape=DataFormat.SOA, max_bytes=max_bytes
    )
    task, source, _ = await to_thread.run_sync(plan)
    if not task.slices:
        return {}
    answer = await readers.answer(task, source, caller)
    text = b"".join([piece async for piece in answer])
    return decode_json(text, dict[str, list[Any]])


def _newest_slices(
    stores: Stores, entry: DatasetEntry, skip: int, limit: int
) -> tuple[list[DataSlice], int]:
    """Return the slices that have the `limit` records before the last `skip`, newest first, and how
    many of the last records of these to skip. Slices of skipped records alone are not among them,
    unless there is no other: an answer without records has columns.
    """
    found: list[DataSlice] = []
    passed: DataSlice | None = None
    start = stores.refs.head(entry.id)
    have = 0
    while have < skip + limit:
        blocks = stores.blocks.ancestors(entry.id, start, limit=BLOCKS_A_LOOK)
        for block in blocks:
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                rows = rows_of(event.new_data)
                if not found and rows <= skip:
                    passed, skip = event.new_data, skip - rows
                    continue
                found.append(event.new_data)
                have += rows
                if have >= skip + limit:
                    return found, skip
        if not blocks or blocks[-1].prev is None:
            break
        start = blocks[-1].prev
    if not found and passed is not None:
        return [passed], rows_of(passed)
    return found, skip


def rows_of(piece: DataSlice) -> int:
    interval = piece.offset_interval
    return interval.count


MAX_REMEMBERED = 10_000
"""Limit of blocks that are remembered."""
_log = logging.getLogger("odf.read")


FirstChanged = Callable[[DatasetEntry, str], Awaitable[int | None]]
"""Returns the number of slices before the first one with a row that retracts or corrects another;
None if there is none. Raises any error of reading slices. Of `VersionReads`, which reads."""


@dataclass(frozen=True)
class Current:
    """Tells whether rows of datasets were taken back. Use it in the thread of the event loop."""

    stores: Stores
    outlines: Outlines
    first_changed: FirstChanged
    remembered: dict[Multihash, bool] = field(default_factory=dict)
    """Whether rows were taken back up to a block with data."""
    beside: Beside = field(default_factory=Beside)

    async def takes_back_soon(self, entry: DatasetEntry, caller: str) -> bool | None:
        """Return whether rows were taken back up to the head; None if that has to be looked for in
        many slices. Then it is known later."""
        outline = await to_thread.run_sync(self._outlined, entry, None)
        return await self.beside.get(
            (entry.id, outline.head),
            lambda: self.takes_back(entry.id, outline, caller),
            slices=len(outline.slices),
        )

    async def takes_back(self, dataset: DatasetId, outline: Outline, caller: str) -> bool:
        """Return whether a row up to the block of the outline retracts or corrects another.

        Return True, too, if that cannot be told now: then the rows are compared by the reader or
        the engine, which gives the same rows later.
        """
        if not outline.slices:
            return False
        last = outline.blocks[-1]
        if last not in self.remembered:
            entry = await to_thread.run_sync(lambda: self.stores.dataset(DatasetRef(id=dataset)))
            try:
                first = await self.first_changed(entry.entry, caller)
            except NodeError as unknown:
                _log.warning(line("rows taken back are not known", reason=unknown.message))
                return True
            if len(self.remembered) >= MAX_REMEMBERED:
                self.remembered.clear()
            self.remembered[last] = first is not None and first < len(outline.slices)
        return self.remembered[last]

    async def takes_back_upto(
        self, entry: DatasetEntry, block: Multihash | None, caller: str
    ) -> bool:
        """Return the same as `takes_back`, as of a block or the head. Raises `BlockNotFound`."""
        outline = await to_thread.run_sync(self._outlined, entry, block)
        return await self.takes_back(entry.id, outline, caller)

    def _outlined(self, entry: DatasetEntry, block: Multihash | None) -> Outline:
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        return self.outlines.of(dataset, block, indexed=False)[0]

    async def simplest(self, entry: DatasetEntry, asked: ReadRequest, caller: str) -> ReadRequest:
        """Return the request, or one for the changelog if that gives the same rows.

        Raises:
            InvalidTime, and `BlockNotFound`.
        """
        if not asked.is_of_facts:
            return asked
        if await self.takes_back_upto(entry, asked.block(), caller):
            return asked
        return replace(asked, projection=CHANGELOG)
