"""Jobs that meet a database or an object store that is away: begun again, each exactly once."""

from __future__ import annotations

import io
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import fresh_location, log_in
from chain_maker import entry
from ingesting import BATCHES, ROWS_OF_A_BATCH, begin
from servers import Program, S3Server, postgres_program, wait_until
from tests.workers.datasets import bench_without_engine
from throwaway import throwaway_stores

import odf_workers.jobs.ingest.run
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.objects.layout import EXCHANGE, DatabaseUnavailable
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket, StoreUnavailable
from odf_storage.stores.ports.values import Failed, Job, JobStatus
from odf_workers.engines.exchange import links as executor_side
from odf_workers.engines.exchange import worker_side
from odf_workers.engines.exchange.worker_side import outbox as outbox_of
from odf_workers.jobs.ingest import claim
from odf_workers.jobs.ingest import round as rounds
from odf_workers.partitions.port import Here, Outbox
from odf_workers.program.loop import MAX_ATTEMPTS, Worker

LEASE = timedelta(minutes=1)
MAX_ROUNDS = 20
ROWS = BATCHES * ROWS_OF_A_BATCH


class Hands:
    """A clock whose hands a test moves: no pause is over by itself, however busy the machine is."""

    def __init__(self) -> None:
        self.now = system_clock()

    def __call__(self) -> Instant:
        return self.now

    def go_on(self) -> None:
        self.now = Instant(self.now.ns + 3600 * NANOS)


def worker_of(stores: Stores, scratch: Path) -> Worker:
    bench = bench_without_engine(stores, scratch)
    return Worker(stores=stores, context=bench, name="here", lease=LEASE, longest_pause_s=0.05)


def jobs_of(stores: Stores, dataset: DatasetId) -> list[Job]:
    return list(stores.jobs.page(dataset=dataset))


def ended(
    stores: Stores, dataset: DatasetId, worker: Worker, hands: Hands
) -> set[tuple[JobStatus, int]]:
    """Work until all jobs of the dataset have ended; how, and after how many attempts."""
    for _ in range(MAX_ROUNDS):
        worker.work(once=True)
        if all(job.outcome for job in jobs_of(stores, dataset)):
            break
        hands.go_on()
    else:
        raise AssertionError("a job is never done")
    return {(job.status, job.attempt) for job in jobs_of(stores, dataset)}


def rows_of(stores: Stores, dataset: DatasetId) -> int:
    return stores.dataset(DatasetRef.parse(str(dataset))).state().next_offset


# --- an object store that is away -----------------------------------------------------------


def test_a_job_whose_store_is_away_begins_again_and_its_rows_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands()
    stores, put, made = throwaway_stores(clock=hands), rounds.put_slices, entry("kamu/away")
    begin(stores, made)
    away = iter([True, True])

    def sometimes(*arguments: Any) -> None:
        if next(away, False):
            raise StoreUnavailable("put_object", "away")
        put(*arguments)

    monkeypatch.setattr(rounds, "put_slices", sometimes)
    worker = worker_of(stores, tmp_path)
    worker.work(once=True)
    assert {job.status for job in jobs_of(stores, made.id)} == {JobStatus.RUNNING}
    assert ended(stores, made.id, worker, hands) == {(JobStatus.SUCCEEDED, 3)}
    assert rows_of(stores, made.id) == ROWS


def test_a_store_that_stays_away_is_an_outcome_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands()
    stores, made = throwaway_stores(clock=hands), entry("kamu/away")
    begin(stores, made)

    def never(*_: Any) -> None:
        raise StoreUnavailable("put_object", "away")

    monkeypatch.setattr(rounds, "put_slices", never)
    worker = worker_of(stores, tmp_path)
    assert ended(stores, made.id, worker, hands) == {(JobStatus.FAILED, MAX_ATTEMPTS)}
    for job in jobs_of(stores, made.id):
        assert isinstance(job.outcome, Failed)
        assert job.outcome.error == "StoreUnavailable"


# --- a bucket that does not keep what executors write ---------------------------------------


def test_a_job_whose_result_is_not_what_executors_wrote_begins_again_and_commits_nothing(
    s3: S3Server, s3_bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, s3)
    place = fresh_location(s3_bucket_url)
    url = f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")
    bucket, rotten = Bucket(place), iter([True, True])

    def rot() -> None:
        if not next(rotten, False):
            return
        for found in list(bucket.walk(f"{EXCHANGE}/")):
            rows = pq.read_table(io.BytesIO(bucket.call("get_object", found.name)["Body"].read()))
            texts = pa.array(["nobody wrote this"] * rows.num_rows)
            rows = rows.set_column(rows.schema.get_field_index("text"), "text", texts)
            written = io.BytesIO()
            pq.write_table(rows, written)
            bucket.call("put_object", found.name, Body=written.getvalue())

    class Elsewhere(Here):
        """Stages that run here, and deliver what they write to the bucket."""

        in_process = False
        width = 2
        partition_bytes = 64 << 20

        def outbox(self, folder: Path, partitions: int) -> Outbox:
            folder.mkdir(parents=True, exist_ok=True)
            return outbox_of(url, folder, partitions)

    def put(*arguments: Any) -> None:
        rot()
        put_slices(*arguments)

    executor_side.begin(0, 0)
    put_slices = rounds.put_slices
    monkeypatch.setattr(rounds, "put_slices", put)
    monkeypatch.setattr(worker_side, "_url", url)
    monkeypatch.setattr(odf_workers.jobs.ingest.run, "way_of", lambda *_: Elsewhere())
    monkeypatch.setattr(odf_workers.jobs.ingest.run, "is_one_task", lambda *_: False)
    hands = Hands()
    stores = replace(throwaway_stores(clock=hands), objects=S3ObjectStore(bucket))
    made = entry("kamu/rotten")
    begin(stores, made)
    worker = worker_of(stores, tmp_path)
    begun = stores.dataset(DatasetRef.parse(str(made.id))).head()
    worker.work(once=True)
    assert stores.dataset(DatasetRef.parse(str(made.id))).head() == begun
    assert not any(job.outcome for job in jobs_of(stores, made.id))
    assert ended(stores, made.id, worker, hands) == {(JobStatus.SUCCEEDED, 3)}
    assert rows_of(stores, made.id) == ROWS
    assert next(rotten, None) is None


# --- a database that is killed --------------------------------------------------------------


@dataclass
class Server:
    """A PostgreSQL of one's own, to be killed."""

    url: str
    program: Program
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGQUIT)  # stops at once, as in a crash
        self.process.wait(timeout=90)

    def start(self) -> None:
        self.process = self.program.start()
        wait_until(self.program.ready, "PostgreSQL")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="odf-postgres-", ignore_cleanup_errors=True) as folder:
        url, program = postgres_program(Path(folder))
        running = Server(url, program, program.start())
        wait_until(program.ready, "PostgreSQL")
        yield running
        running.kill()


@pytest.mark.parametrize(("moment", "attempts"), [("before", 2), ("after", 1)])
def test_a_job_whose_database_is_killed_at_its_commit_gives_its_rows_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, attempts: int
) -> None:
    hands = Hands()
    settings = StoreSettings(data=tmp_path / "data", database_url=server.url)
    stores = open_stores(settings, clock=hands)
    made = entry(f"kamu/{moment}")
    begin(stores, made)
    commit_all, kills = claim.commit_all, iter([True])

    def killed(*arguments: Any) -> Any:
        is_last = next(kills, False)
        if is_last and moment == "before":
            server.kill()
        refused = commit_all(*arguments)
        if is_last:
            server.kill()
            raise DatabaseUnavailable  # the answer never came
        return refused

    monkeypatch.setattr(claim, "commit_all", killed)
    worker = worker_of(stores, tmp_path)
    worker.work(once=True)
    server.start()
    assert ended(stores, made.id, worker, hands) == {(JobStatus.SUCCEEDED, attempts)}
    assert rows_of(stores, made.id) == ROWS
    stores.close()
