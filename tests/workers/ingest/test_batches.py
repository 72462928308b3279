"""Posts that wait together run together, here and on Spark, and each comes to its own end."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from tests.workers import datasets
from tests.workers.datasets import bench_without_engine, created
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, IngestReceipt
from odf_storage.datasets.merge_state import store
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    Failed,
    JobId,
    JobSpec,
    JobStatus,
    ObjectKind,
    Succeeded,
)
from odf_workers.engines.port.job_listener import HeardOfAll
from odf_workers.jobs.ingest import claim
from odf_workers.jobs.ingest import round as post
from odf_workers.jobs.ingest import round as rounds
from odf_workers.partitions.messages import StageFailed
from odf_workers.program.loop import Worker
from odf_workers.program.metrics import WorkerMetrics
from odf_workers.runtime.progress import JobProgress
from odf_workers.stages import read as stages

NOW = Instant.parse("2050-01-01T12:00:00Z")
READ: ReadStep = from_data(
    {"kind": "Csv", "schema": ["event_time TIMESTAMP", "n BIGINT", "text STRING"]}, ReadStep
)
WAYS = ["here", pytest.param("on Spark", marks=pytest.mark.spark)]
MERGES: list[MergeStrategy] = [
    MergeStrategyAppend(),
    MergeStrategyLedger(primary_key=("n",)),
    MergeStrategySnapshot(primary_key=("n",)),
    MergeStrategyUpsertStream(primary_key=("n",)),
]
WorkerOf = Callable[..., Worker]


@pytest.fixture
def worker_of(request: pytest.FixtureRequest, tmp_path: Path) -> WorkerOf:
    """A worker on stores, all of whose posts run here, or all on Spark."""

    def made(stores: Stores, way: str, lease: timedelta = timedelta(seconds=30)) -> Worker:
        folder = tmp_path / f"{way}-{time.monotonic_ns()}"
        folder.mkdir()
        bench = bench_without_engine(stores, folder)
        if way != "here":
            engines = replace(bench.engines, session=request.getfixturevalue("spark"))
            bench = replace(
                bench, engines=engines, ingest=replace(bench.ingest, micro_batch_bytes=0)
            )
        return Worker(
            stores=stores, context=bench, name=folder.name, lease=lease, longest_pause_s=0.04
        )

    return made


def line(n: int) -> str:
    return f"2024-01-01T00:00:{n % 60:02}Z,{n},row {n}\n"


def posted(stores: Stores, dataset: Dataset, body: bytes) -> JobId:
    payload = IngestPayload(
        upload=str(Multihash.of(body)), source_event_time="2024-01-02T00:00:00Z"
    )
    spec = JobSpec(
        ingest_job.KIND, dataset.id, ingest_job.to_json(payload), lock=str(dataset.id), body=body
    )
    return stores.jobs.submit(spec)


def begun(stores: Stores, number: int, merge: MergeStrategy | None = None) -> Dataset:
    """A dataset that is to get its schema by row 0."""
    dataset = created(stores, number=number, read=READ, merge=merge)
    posted(stores, dataset, line(0).encode())
    return dataset


def receipt(stores: Stores, job: JobId) -> IngestReceipt:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded), outcome
    return ingest_job.receipt_of(outcome.result)


def rows_of(dataset: Dataset) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for block in dataset.blocks():
        if (data := getattr(block.event, "new_data", None)) is not None:
            with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                rows += pq.read_table(stream).to_pylist()
    return rows


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_post_among_twenty_good_ones_fails_alone_by_its_own_line_and_column(
    worker_of: WorkerOf, way: str
) -> None:
    stores = throwaway_stores()
    worker, dataset = worker_of(stores, way), begun(stores, 1)
    worker.work(once=True)
    before = dataset.head()
    good = [posted(stores, dataset, line(n).encode()) for n in range(1, 11)]
    bad = posted(stores, dataset, f"{line(90)}{line(91)}2024-01-01,many,x\n".encode())
    good += [posted(stores, dataset, line(n).encode()) for n in range(11, 21)]
    worker.work(once=True)
    outcome = stores.jobs.get(bad).outcome
    assert isinstance(outcome, Failed)
    facts = outcome.facts
    assert (outcome.error, facts["line"], facts["column"], facts["value"]) == (
        "BadRow",
        3,
        "n",
        "many",
    )
    told = [receipt(stores, job) for job in good]
    assert [each.offset_start for each in told] == list(range(1, 21))
    assert {each.blocks for each in told} == {(str(dataset.head()),)}
    assert len(dataset.blocks(after=before)) == 1
    assert [row["n"] for row in rows_of(dataset)] == list(range(21))
    assert {each.ran.spark_jobs for each in told if each.ran} == {0 if way == "here" else 1}


@pytest.mark.spark
def test_a_claim_of_several_datasets_is_the_same_here_and_on_spark(
    worker_of: WorkerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "now", lambda: NOW)
    found = []
    for way in ("here", "on Spark"):
        moment = [0]  # of all posts alike, whatever a way takes
        stores = throwaway_stores(clock=lambda at=moment: Instant(NOW.ns + at[0]))
        worker = worker_of(stores, way)
        made = [begun(stores, number + 1, merge) for number, merge in enumerate(MERGES)]
        worker.work(once=True)
        bodies = ["".join(map(line, range(n, 3 * n))) for n in (1, 5, 2)]
        jobs = []
        for body in ("", *bodies, "2024-01-01T00:00:00Z,5,changed\n,7,\n"):
            for dataset in made:
                moment[0] += 1_000_000_000
                jobs.append(posted(stores, dataset, body.encode()))
        worker.work(once=True)
        ends = [stores.jobs.get(job).outcome for job in jobs]
        assert all(isinstance(end, Succeeded) for end in ends), ends
        ran = {receipt(stores, job).ran for job in jobs}
        assert {each.spark_jobs for each in ran if each} == {0 if way == "here" else 1}
        told = [told_of(receipt(stores, job)) for job in jobs]
        found.append((told, [rows_of(dataset) for dataset in made]))
    assert found[0] == found[1]
    assert all(len(rows) > 5 for rows in found[0][1])


def told_of(given: IngestReceipt) -> dict[str, Any]:
    """A receipt, hashes of blocks and slices included, without where the stages ran."""
    told = msgspec.to_builtins(given)
    del told["ran"]
    return dict(told)


def test_a_small_body_that_unpacks_to_much_is_a_batch_by_itself_and_keeps_its_rows(
    worker_of: WorkerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post, "SHARED_BYTES", 10_000)
    monkeypatch.setattr(rounds, "SHARED_BYTES", 10_000)
    stores = throwaway_stores()
    worker, dataset = worker_of(stores, "here"), begun(stores, 1)
    worker.work(once=True)
    before = dataset.head()
    much = gzip.compress("".join(line(n) for n in range(1_000)).encode(), mtime=0)
    jobs = [posted(stores, dataset, body) for body in (line(1).encode(), much, line(2).encode())]
    worker.work(once=True)
    told = [receipt(stores, job) for job in jobs]
    assert [(each.offset_start, each.offset_end) for each in told] == [
        (1, 1),
        (2, 1001),
        (1002, 1002),
    ]
    assert [each.rows_added for each in told] == [1, 1000, 1]
    assert len(rows_of(dataset)) == 1003
    assert len(dataset.blocks(after=before)) == 3


def test_an_error_inside_of_the_node_fails_the_post_that_met_it_and_no_other(
    worker_of: WorkerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = throwaway_stores()
    worker, dataset = worker_of(stores, "here"), begun(stores, 1)
    worker.work(once=True)
    read_rows = stages.read_rows

    def broken(read: Any, split: Any, rejected: Any) -> Any:
        if b"row 2" in split.file.content:
            raise ZeroDivisionError("secret")
        return read_rows(read, split, rejected)

    monkeypatch.setattr(stages, "read_rows", broken)
    jobs = [posted(stores, dataset, line(n).encode()) for n in (1, 2, 3)]
    worker.work(once=True)
    failed = stores.jobs.get(jobs[1]).outcome
    assert isinstance(failed, Failed)
    assert failed.error == "Internal"
    assert "secret" not in failed.message
    assert [receipt(stores, job).offset_start for job in (jobs[0], jobs[2])] == [1, 2]


@pytest.mark.spark
def test_datasets_whose_job_of_spark_fails_are_worked_on_one_by_one(
    worker_of: WorkerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = throwaway_stores()
    worker = worker_of(stores, "on Spark")
    made = [begun(stores, number) for number in (1, 2, 3)]
    worker.work(once=True)
    run_batches, sizes = rounds.run_batches, []

    def failing(way: Any, batches: Any, context: Any) -> Any:
        sizes.append(len(batches))
        if len(batches) > 1:
            raise StageFailed("a process has ended")
        return run_batches(way, batches, context)

    monkeypatch.setattr(rounds, "run_batches", failing)
    jobs = [posted(stores, dataset, line(1).encode()) for dataset in made]
    worker.work(once=True)
    assert sizes[0] == 3
    assert [receipt(stores, job).offset_start for job in jobs] == [1, 1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_posts_and_datasets_that_run_together_are_counted_once(
    worker_of: WorkerOf, way: str
) -> None:
    stores = throwaway_stores()
    worker, metrics = worker_of(stores, way), WorkerMetrics()
    made = [begun(stores, number) for number in (1, 2, 3)]
    worker.work(once=True)
    worker.on_end, worker.on_stages = metrics.ended, metrics.stages_ran
    for dataset in made:
        for n in range(1, 6):
            posted(stores, dataset, line(n).encode())
    worker.work(once=True)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"kind": "ingest", **labels})

    on_spark = way != "here"
    where = "spark" if on_spark else "process"
    assert value("odf_worker_jobs_total", outcome="done") == 15
    assert value("odf_worker_batch_seconds_count", way=where) == 3
    assert value("odf_worker_batch_rows_total", way=where) == 15
    size = 3 * sum(len(line(n)) for n in range(1, 6))
    assert value("odf_worker_batch_bytes_total", way=where) == size
    assert value("odf_worker_spark_jobs_total", way=where) == on_spark


class Killed(BaseException):
    """The worker's process ends."""


@pytest.mark.parametrize("moment", ["after the rows are read", "before the commit", "after it"])
def test_a_claim_whose_worker_is_killed_in_the_middle_commits_each_post_once(
    worker_of: WorkerOf, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    stores = throwaway_stores()
    worker = worker_of(stores, "here", timedelta(seconds=0.5))
    made = [begun(stores, number) for number in (1, 2, 3)]
    worker.work(once=True)
    jobs = [posted(stores, dataset, line(n).encode()) for dataset in made for n in range(1, 6)]
    where, name = (
        (rounds, "write_batch") if moment.startswith("after the") else (claim, "commit_all")
    )
    real, calls = getattr(where, name), iter(range(100))

    def killed(*given: Any) -> Any:
        call = next(calls)
        if moment.startswith("after the"):
            if call == 1:
                raise Killed
            return real(*given)
        if call == 0 and moment == "before the commit":
            raise Killed
        done = real(*given)
        if call == 0:
            raise Killed
        return done

    monkeypatch.setattr(where, name, killed)
    with pytest.raises(Killed):
        worker.work(once=True)
    monkeypatch.setattr(where, name, real)
    other = worker_of(stores, "here")
    deadline = time.monotonic() + 120
    while any(stores.jobs.get(job).outcome is None for job in jobs):
        assert time.monotonic() < deadline
        other.work(once=True)
        time.sleep(0.05)
    assert {stores.jobs.get(job).status for job in jobs} == {JobStatus.SUCCEEDED}
    for dataset in made:
        assert sorted(row["n"] for row in rows_of(dataset)) == list(range(6))


def test_work_for_several_jobs_goes_on_until_none_of_them_is_ours() -> None:
    jobs, stopped = [JobProgress(), JobProgress()], []
    HeardOfAll(jobs).stops(lambda: stopped.append(True))
    jobs[0].lose()
    jobs[0].lose()
    assert not stopped
    jobs[1].lose()
    assert stopped


def test_a_merge_in_the_process_links_no_file_of_its_merge_state(
    worker_of: WorkerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = throwaway_stores()
    worker, dataset = worker_of(stores, "here"), begun(stores, 1, MERGES[1])
    worker.work(once=True)
    linked: list[Any] = []
    monkeypatch.setattr(store, "_link", lambda *given: linked.append(given))
    job = posted(stores, dataset, (line(0) + line(1)).encode())
    worker.work(once=True)
    assert (receipt(stores, job).rows_added, receipt(stores, job).rows_known) == (1, 1)
    assert not linked
