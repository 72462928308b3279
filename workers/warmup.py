"""The first jobs of a fresh Spark are slow; so a worker does two of its own before it is ready.

They go the way of real ones, on stores in memory: read, merge with a history, write, commit.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from protocol.chain.author import author
from protocol.chain.state import EMPTY
from protocol.identity import DatasetAlias, DatasetId
from protocol.instant import Instant
from protocol.metadata.events import AddPushSource, DatasetKind, MetadataEvent, Seed
from protocol.metadata.reading import MergeStrategyUpsertStream, ReadStepNdJson
from protocol.multihash import Multihash
from storage.config import memory_stores
from storage.dataset import Dataset
from storage.ingest_job import IngestPayload
from storage.merge_state.store import MergeStates
from storage.stores import Stores
from storage.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

from .ingest.bench import Bench
from .ingest.run import run_ingest

_ROWS = (
    b'{"event_time": "2020-01-01", "city": "A", "population": 1, "share": 0.5}\n',
    b'{"event_time": "2020-01-02", "city": "A", "population": 2, "share": 0.5}\n',
)


def warm_up(bench: Bench, *, now: Instant) -> None:
    """Ingest two small batches into a dataset that nobody sees."""
    stores = memory_stores()
    with tempfile.TemporaryDirectory(prefix="warm-up-", dir=bench.scratch) as folder:
        states = MergeStates(Path(folder), max_bytes=1 << 20)
        _ingest(stores, replace(bench, objects=stores.objects, states=states), now)


def _ingest(stores: Stores, bench: Bench, now: Instant) -> None:
    dataset = _dataset(stores, now)
    for batch in (_ROWS[0], _ROWS[0] + _ROWS[1]):
        upload = Multihash.of(batch)
        stores.objects.put(ObjectKey(dataset.id, ObjectKind.UPLOAD, upload), [batch])
        run_ingest(dataset, IngestPayload(upload=str(upload)), bench, now=now)


def _dataset(stores: Stores, now: Instant) -> Dataset:
    dataset = DatasetId(bytes(32))
    source = AddPushSource(
        source_name="default",
        read=ReadStepNdJson(),
        merge=MergeStrategyUpsertStream(primary_key=("city",)),
    )
    events: list[MetadataEvent] = [Seed(dataset_id=dataset, dataset_kind=DatasetKind.Root), source]
    blocks, _ = author(EMPTY, events, system_time=now)
    entry = DatasetEntry(
        id=dataset,
        alias=DatasetAlias.parse("kamu/warm-up"),
        kind=DatasetKind.Root,
        visibility=Visibility.PRIVATE,
        created_at=now,
    )
    return stores.create_dataset(entry, blocks)
