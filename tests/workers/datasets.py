"""Datasets to ingest into, and batches for them."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, DatasetKind, MetadataEvent, Seed
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    ReadStep,
    ReadStepNdJson,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    DatasetEntry,
    JobId,
    JobSpec,
    ObjectKey,
    ObjectKind,
    Visibility,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.jobs.work.context import IngestOptions, WorkerContext
    from odf_workers.program.loop import Worker


def bench_without_engine(stores: Stores, scratch: Path, **options: Any) -> WorkerContext:
    """A bench for rows that need no Spark; whatever asks for it fails."""
    from odf_workers.jobs.work.context import Engines, WorkerContext

    none: Any = None
    return WorkerContext(
        engines=Engines(session=none, first=none),
        objects=stores.objects,
        scratch=scratch,
        ingest=ingest_options(scratch, **options),
    )


def ingest_options(folder: Path, **options: Any) -> IngestOptions:
    """Options of ingests; what merges know of histories is kept in the folder."""
    from odf_workers.jobs.work.context import IngestOptions

    states = MergeStates(folder / "merge-state", max_bytes=1 << 30)
    return IngestOptions(**{"states": states, **options})


def worker_of(spark: SparkSession, stores: Stores, scratch: Path, **options: Any) -> Worker:
    """A worker on the session of the run; `options` of its ingests."""
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines, WorkerContext
    from odf_workers.program.loop import Worker

    made = WorkerContext(
        engines=Engines(session=spark, first=SparkEngine(spark)),
        objects=stores.objects,
        scratch=scratch,
        ingest=ingest_options(scratch, **options),
    )
    return Worker(
        stores=stores, context=made, name="w", lease=timedelta(seconds=30), longest_pause_s=0.04
    )


def now() -> Instant:
    return Instant(time.time_ns())


def created(
    stores: Stores,
    *,
    number: int = 1,
    read: ReadStep | None = None,
    merge: MergeStrategy | None = None,
    source: MetadataEvent | None = None,
    more: tuple[MetadataEvent, ...] = (),
) -> Dataset:
    """A root dataset with one source: push, NdJson and Append unless told otherwise."""
    dataset = DatasetId(bytes([number]) * 32)
    source = source or AddPushSource(
        source_name="default",
        read=read or ReadStepNdJson(),
        merge=merge or MergeStrategyAppend(),
    )
    events: list[MetadataEvent] = [
        Seed(dataset_id=dataset, dataset_kind=DatasetKind.Root),
        source,
        *more,
    ]
    when = now()
    blocks, _ = author(EMPTY, events, system_time=when)
    entry = DatasetEntry(
        id=dataset,
        alias=DatasetAlias.parse(f"kamu/rows-{number}"),
        kind=DatasetKind.Root,
        visibility=Visibility.PRIVATE,
        created_at=when,
    )
    return stores.create_dataset(entry, blocks)


def ndjson(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def upload(stores: Stores, dataset: Dataset, body: bytes) -> IngestPayload:
    content = Multihash.of(body)
    stores.objects.put(ObjectKey(dataset.id, ObjectKind.UPLOAD, content), [body])
    return IngestPayload(upload=str(content))


def submit(stores: Stores, dataset: Dataset, body: bytes) -> JobId:
    payload = ingest_job.to_json(upload(stores, dataset, body))
    return stores.jobs.submit(JobSpec(ingest_job.KIND, dataset.id, payload, lock=str(dataset.id)))
