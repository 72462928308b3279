"""Plan how a reader reads the last records of a dataset, from its newest slices only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import to_thread

from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.records import DataFormat
from odf_storage.stores.ports.values import DatasetEntry

from ..readers.materials import Materials
from ..readers.pool import Readers
from ..readers.tasks import SliceRef, TailTask, schema_data

MAX_TAIL_BYTES = 32 << 20
"""Most bytes of records answered by one tail request or look-up; more: 413."""

MAX_TAIL_RECORDS = 10_000
"""Most records answered (skipped ones included) by one tail request, or by one look-up."""

BLOCKS_A_LOOK = 100


class TooManyRecords(LimitExceeded):
    """The request asks for more records than one request may read."""


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
        raise TooManyRecords(
            f"skip and limit may add up to {most}; page through offsets instead",
            limit=most,
        )
    dataset = tails.stores.dataset(DatasetRef(id=entry.id))
    schema = dataset.state(dataset.head()).data_schema
    slices = _newest_slices(tails.stores, entry, skip + limit)
    task = TailTask(
        slices=[SliceRef.of(piece) for piece in reversed(slices)],
        schema=schema_data(schema),
        skip=skip,
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


def _newest_slices(stores: Stores, entry: DatasetEntry, wanted: int) -> list[DataSlice]:
    """Return the newest slices, newest first, until they have `wanted` records."""
    found: list[DataSlice] = []
    start = stores.refs.head(entry.id)
    have = 0
    while have < wanted:
        blocks = stores.blocks.ancestors(entry.id, start, limit=BLOCKS_A_LOOK)
        for block in blocks:
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                found.append(event.new_data)
                have += rows_of(event.new_data)
                if have >= wanted:
                    return found
        if not blocks or blocks[-1].prev is None:
            return found
        start = blocks[-1].prev
    return found


def rows_of(piece: DataSlice) -> int:
    interval = piece.offset_interval
    return interval.end - interval.start + 1
