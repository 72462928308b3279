"""Datasets to ingest into, and batches for them."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.chain.author import author
from protocol.chain.state import EMPTY
from protocol.identity import DatasetAlias, DatasetId
from protocol.instant import Instant
from protocol.metadata.events import AddPushSource, DatasetKind, MetadataEvent, Seed
from protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    ReadStep,
    ReadStepNdJson,
)
from protocol.multihash import Multihash
from storage.contracts import ingest_job
from storage.contracts.ingest_job import IngestPayload
from storage.dataset import Dataset
from storage.stores import Stores
from storage.values import (
    DatasetEntry,
    JobId,
    JobSpec,
    ObjectKey,
    ObjectKind,
    Visibility,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from workers.ingest.bench import Bench
    from workers.main import Worker


def bench_without_engine(stores: Stores, scratch: Path, **more: Any) -> Bench:
    """A bench for rows that need no Spark; whatever asks for it fails."""
    from workers.ingest.bench import Bench

    none: Any = None
    return Bench(session=none, engine=none, objects=stores.objects, scratch=scratch, **more)


def worker_of(spark: SparkSession, stores: Stores, scratch: Path, **bench: Any) -> Worker:
    """A worker on the session of the run; `bench` is what differs from the usual."""
    from workers.engine.spark_engine import SparkEngine
    from workers.ingest.bench import Bench
    from workers.main import Worker

    parts: dict[str, Any] = {"engine": SparkEngine(spark), "objects": stores.objects} | bench
    made = Bench(session=spark, scratch=scratch, **parts)
    return Worker(
        stores=stores, bench=made, name="w", lease=timedelta(seconds=30), longest_pause_s=0.04
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
