"""The rows of a block as JSON, for streams that include them: read once for all listeners.

A slice never changes, so listeners share a running read, and the last results are cached.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.data import DataSlice
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.records import DataFormat

from ..readers.materials import Materials
from ..readers.pool import Readers, ReadRefused
from ..readers.tasks import SliceRef, TailTask, schema_data

EVENTS_MAX_ROW_BYTES = 1 << 20
"""Most bytes these rows may have as JSON."""

EVENTS_MAX_ROWS = 1_000
"""Most rows one event of a stream carries; of more it has none."""

KEPT = 16
CALLER = "events"
"""All streams together count as one caller of readers, so that they use only one caller's share."""


class RowTexts:
    """Reads and caches rows as JSON, for coroutines of one event loop."""

    def __init__(self, stores: Stores, readers: Readers, *, max_rows: int, max_bytes: int) -> None:
        self._stores, self._readers = stores, readers
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._texts: OrderedDict[tuple[DatasetId, Multihash], asyncio.Task[bytes | None]]
        self._texts = OrderedDict()

    async def of(self, dataset: DatasetId, data: DataSlice) -> bytes | None:
        """Return a JSON array of records; None if they exceed the limits of a notice.

        Raises:
            The same errors as `Readers.answer`.
        """
        interval = data.offset_interval
        if interval.end - interval.start + 1 > self._max_rows:
            return None
        key = (dataset, data.physical_hash)
        known = self._texts.get(key)
        if known is None or (known.done() and known.exception() is not None):
            known = asyncio.create_task(self._read(dataset, data))
            self._texts[key] = known
            while len(self._texts) > KEPT:
                self._texts.popitem(last=False)
        return await asyncio.shield(known)

    async def _read(self, dataset: DatasetId, data: DataSlice) -> bytes | None:
        found = await asyncio.to_thread(self._stores.dataset, DatasetRef(id=dataset))
        schema = await asyncio.to_thread(lambda: found.state(found.head()).data_schema)
        task = TailTask(
            slices=[SliceRef.of(data)],
            schema=schema_data(schema),
            skip=0,
            limit=self._max_rows,
            shape=DataFormat.AOS.value,
            max_bytes=self._max_bytes,
        )
        materials = Materials(found, self._stores.projections)
        try:
            answer = await self._readers.answer(task, materials, CALLER)
            return b"".join([piece async for piece in answer])
        except ReadRefused as refused:
            if refused.failed.error == "AnswerTooLong":
                return None
            raise
