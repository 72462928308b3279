"""The engines of a worker, by name: those in its process, and those named in its settings.

Warm-up: a worker runs small jobs of its own, because a new Spark's first jobs are slow.

They take the same path as real jobs, on temporary stores: read, merge with the history, write,
commit; and for each batch an iteration of a derivative, over new rows and over a correction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddPushSource,
    DatasetKind,
    MetadataEvent,
    Seed,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.metadata.sources import MergeStrategyUpsertStream, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

from ..engines.port.port import Engine, Prepared
from ..engines.port.query_size import QuerySize
from ..jobs.ingest.run import run_ingest
from ..jobs.transform.run import run_transform
from ..jobs.work.context import WorkerContext
from ..settings import WorkerSettings, container_rules

OF_VERSION = "@"
"""Separates the name of an engine from its version, if there are several: `spark@3.5`."""
IMAGE = "image:"
"""Prefix of a setting's value that names an image; without it the value is an address."""


def _spark(settings: WorkerSettings, session: Any) -> Engine:
    from ..engines.spark_engine.engine import SparkEngine

    return SparkEngine(session, seconds=settings.query_s, size=query_size(settings))


def _datafusion(settings: WorkerSettings, _session: Any) -> Engine | None:
    from ..engines.datafusion.engine import DataFusionEngine, DataFusionLimits, installed_version

    if installed_version() is None:
        return None
    limits = DataFusionLimits(
        seconds=settings.query_s,
        cpu_seconds=ceil(settings.query_s),
        pool_bytes=settings.datafusion_process_bytes // 4,
        process_bytes=settings.datafusion_process_bytes,
        size=query_size(settings),
    )
    return DataFusionEngine(limits, confinement=settings.engine_confinement)


def query_size(settings: WorkerSettings) -> QuerySize:
    return QuerySize(bytes=settings.max_query_bytes)


IN_PROCESS: Mapping[str, Callable[[WorkerSettings, Any], Engine | None]] = {
    "spark": _spark,
    "datafusion": _datafusion,
}


def engines(settings: WorkerSettings, session: Any) -> tuple[Engine, ...]:
    """Return all engines; a configured engine replaces one of the same name in the process.

    Engines with a version in their name are last: they only repeat what that version computed.
    """
    names = [name.lower() for name in settings.engines]
    found = [configured(settings, name) for name in names if OF_VERSION not in name]
    named = {engine.name for engine in found}
    for name, make in IN_PROCESS.items():
        if name not in named and (engine := make(settings, session)) is not None:
            found.append(engine)
    found += [configured(settings, name) for name in names if OF_VERSION in name]
    return tuple(found)


def configured(settings: WorkerSettings, name: str) -> Engine:
    """Return an engine from the settings: at an address, or in an image."""
    from ..engines.remote.container import ContainerEngine, EngineRules
    from ..engines.remote.remote import RemoteEngine

    given = {key.lower(): value for key, value in settings.engines.items()}[name]
    name = name.partition(OF_VERSION)[0]
    if not given.startswith(IMAGE):
        return RemoteEngine(name, given, seconds=settings.query_s)
    rules = EngineRules(
        containers=container_rules(settings),
        network=settings.engine_network,
    )
    return ContainerEngine(name, given.removeprefix(IMAGE), rules, seconds=settings.query_s)


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


def warm_up(
    context: WorkerContext, *, now: Instant, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Ingest two small batches into a temporary dataset, and compute a derivative of it; no
    further batch once it `is_over`."""
    for engine in context.engines.others:
        if isinstance(engine, Prepared):
            engine.prepare()
    with tempfile.TemporaryDirectory(prefix="warm-up-", dir=context.scratch) as folder:
        settings = StoreSettings(data=Path(folder) / "node", durable=False)
        with closing(open_stores(settings, repair=False)) as stores:
            states = MergeStates(Path(folder) / "merge-state", max_bytes=0)
            ingest = replace(context.ingest, states=states)
            own = replace(context, objects=stores.objects, ingest=ingest, scratch=Path(folder))
            _work(stores, own, now, is_over)


def _work(
    stores: Stores, context: WorkerContext, now: Instant, is_over: Callable[[], bool]
) -> None:
    root = _dataset(stores, "warm-up", DatasetKind.Root, _SOURCE, now)
    reads = TransformInput(dataset_ref=DatasetRef(id=root.id), alias="cities")
    query = TransformSql(engine=context.engines.first.name, queries=(SqlQueryStep(query=_QUERY),))
    definition = SetTransform(inputs=(reads,), transform=query)
    derivative = _dataset(stores, "warmer", DatasetKind.Derivative, definition, now)
    for batch in (_ROWS[0], _ROWS[0] + _ROWS[1]):
        if is_over():
            return
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
