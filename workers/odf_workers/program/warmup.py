"""Warm-up: a worker runs small jobs before it is ready, because a new Spark's first jobs are slow.

They take the same path as real jobs, on temporary stores: read, merge with the history, write,
commit; and for each batch an iteration of a derivative, over new rows and over a correction.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from odf_protocol.chain.author import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddPushSource,
    DatasetKind,
    MetadataEvent,
    Seed,
    SetTransform,
)
from odf_protocol.metadata.reading import MergeStrategyUpsertStream, ReadStepNdJson
from odf_protocol.metadata.transforms import SqlQueryStep, TransformInput, TransformSql
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

from ..engines.port.port import Prepared
from ..jobs.ingest.run import run_ingest
from ..jobs.transform.run import run_transform
from ..jobs.work.context import WorkerContext

_ROWS = (
    b'{"event_time": "2020-01-01", "city": "A", "population": 1, "share": 0.5}\n',
    b'{"event_time": "2020-01-02", "city": "A", "population": 2, "share": 0.5}\n',
)
_SOURCE = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategyUpsertStream(primary_key=("city",)),
)
_QUERY = "select op, event_time, upper(city) as city, population * share as n from cities"


def warm_up(context: WorkerContext, *, now: Instant) -> None:
    """Ingest two small batches into a temporary dataset, and compute a derivative of it."""
    for engine in context.engines.others:
        if isinstance(engine, Prepared):
            engine.prepare()
    with tempfile.TemporaryDirectory(prefix="warm-up-", dir=context.scratch) as folder:
        settings = StoreSettings(data=Path(folder) / "node", durable=False)
        with closing(open_stores(settings, repair=False)) as stores:
            states = MergeStates(Path(folder) / "merge-state", max_bytes=0)
            ingest = replace(context.ingest, states=states)
            own = replace(context, objects=stores.objects, ingest=ingest, scratch=Path(folder))
            _work(stores, own, now)


def _work(stores: Stores, context: WorkerContext, now: Instant) -> None:
    root = _dataset(stores, "warm-up", DatasetKind.Root, _SOURCE, now)
    reads = TransformInput(dataset_ref=DatasetRef(id=root.id), alias="cities")
    query = TransformSql(engine=context.engines.first.name, queries=(SqlQueryStep(query=_QUERY),))
    definition = SetTransform(inputs=(reads,), transform=query)
    derivative = _dataset(stores, "warmer", DatasetKind.Derivative, definition, now)
    for batch in (_ROWS[0], _ROWS[0] + _ROWS[1]):
        upload = Multihash.of(batch)
        stores.objects.put(ObjectKey(root.id, ObjectKind.UPLOAD, upload), [batch])
        run_ingest(root, IngestPayload(upload=str(upload)), context, now=now)
        run_transform(stores, derivative, TransformPayload(), context, now=now)


def _dataset(
    stores: Stores, name: str, kind: DatasetKind, event: MetadataEvent, now: Instant
) -> Dataset:
    dataset = DatasetId(name.encode().ljust(32, b"."))
    events: list[MetadataEvent] = [Seed(dataset_id=dataset, dataset_kind=kind), event]
    blocks, _ = author(EMPTY, events, system_time=now)
    entry = DatasetEntry(
        id=dataset,
        alias=DatasetAlias.parse(f"kamu/{name}"),
        kind=kind,
        visibility=Visibility.PRIVATE,
        created_at=now,
    )
    return stores.create_dataset(entry, blocks)
