"""A worker that ingests without Spark, which appending needs not."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from tests.workers.datasets import bench_without_engine

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.errors import code_of
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, DatasetKind, Seed
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    DatasetEntry,
    JobSpec,
    JobStatus,
    ObjectKey,
    ObjectKind,
)
from odf_workers.program.loop import Worker

ROWS_OF_A_BATCH = 3
BATCHES = 2
LEASE = timedelta(seconds=0.1)
"""Short, so that the jobs of a killed worker are free again at once."""
LONG_LEASE = timedelta(seconds=2)
"""Of a worker that is killed now and then, and works most of the time."""


def begin(stores: Stores, entry: DatasetEntry) -> None:
    """A dataset with a push source, and batches that wait for a worker."""
    events = [
        Seed(dataset_id=entry.id, dataset_kind=DatasetKind.Root),
        AddPushSource(source_name="default", read=ReadStepNdJson(), merge=MergeStrategyAppend()),
    ]
    now = Instant(time.time_ns())
    stores.create_dataset(entry, author(EMPTY, events, system_time=now)[0])
    for batch in range(BATCHES):
        submit(stores, entry, batch)


def begin_several(stores: Stores, entries: Sequence[DatasetEntry]) -> None:
    """Datasets that have a row each, and small posts to all of them that wait together."""
    read = ReadStepNdJson()
    for entry in entries:
        source = AddPushSource(source_name="default", read=read, merge=MergeStrategyAppend())
        seed = Seed(dataset_id=entry.id, dataset_kind=DatasetKind.Root)
        now = Instant(time.time_ns())
        stores.create_dataset(entry, author(EMPTY, [seed, source], system_time=now)[0])
        _post(stores, entry, 0)
    work(stores, lease=LONG_LEASE)
    for number in range(1, BATCHES + 1):
        for entry in entries:
            _post(stores, entry, number)


def _post(stores: Stores, entry: DatasetEntry, number: int) -> None:
    body = f'{{"text": "{entry.alias} {number}"}}\n'.encode()
    payload = ingest_job.to_json(IngestPayload(upload=str(Multihash.of(body))))
    spec = JobSpec(ingest_job.KIND, entry.id, payload, lock=str(entry.id), body=body)
    stores.jobs.submit(spec)


def submit(stores: Stores, entry: DatasetEntry, batch: int) -> None:
    rows = range(batch * ROWS_OF_A_BATCH, (batch + 1) * ROWS_OF_A_BATCH)
    body = "".join(f'{{"text": "{entry.alias} {row}"}}\n' for row in rows).encode()
    content = Multihash.of(body)
    stores.objects.put(ObjectKey(entry.id, ObjectKind.UPLOAD, content), [body])
    payload = ingest_job.to_json(IngestPayload(upload=str(content)))
    stores.jobs.submit(JobSpec(ingest_job.KIND, entry.id, payload, lock=str(entry.id)))


def work(stores: Stores, *, lease: timedelta = LEASE) -> None:
    """Run what waits, as a worker does."""
    with tempfile.TemporaryDirectory() as scratch:
        bench = bench_without_engine(stores, Path(scratch))
        worker = Worker(
            stores=stores, context=bench, name="torture", lease=lease, longest_pause_s=0.01
        )
        worker.work(once=True)


def finish(stores: Stores, entry: DatasetEntry) -> int:
    """Another worker takes over; how many rows there are when no job is left."""
    deadline = time.monotonic() + 120
    while any(
        job.status in (JobStatus.WAITING, JobStatus.RUNNING)
        for job in stores.jobs.page(dataset=entry.id)
    ):
        assert time.monotonic() < deadline, "a job is never done"
        time.sleep(LEASE.total_seconds() / 4)
        work(stores, lease=LONG_LEASE)
    assert {job.status for job in stores.jobs.page(dataset=entry.id)} == {JobStatus.SUCCEEDED}
    return BATCHES * ROWS_OF_A_BATCH


def main() -> None:
    """A worker as a process: told where the stores are, it works until it is killed."""
    from crash_work import settings_of

    while True:
        try:
            stores = open_stores(settings_of(json.loads(sys.argv[1])), migrate=False, repair=False)
            while True:
                work(stores, lease=LONG_LEASE)
                time.sleep(0.05)
        except Exception as problem:  # a server is being killed: look again
            print(code_of(problem), problem, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
