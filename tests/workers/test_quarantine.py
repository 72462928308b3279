"""Batches that go on without their bad rows: counted, kept, once, and never for snapshots."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.datasets import created, worker_of
from throwaway import throwaway_stores

from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepNdJson,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, IngestReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Failed, JobId, JobSpec, Succeeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.program.loop import Worker

pytestmark = pytest.mark.spark


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def worker(spark: SparkSession, stores: Stores, tmp_path: Path) -> Worker:
    return worker_of(spark, stores, tmp_path, max_rejected_rows=3)


def numbers(stores: Stores, merge: MergeStrategy | None = None) -> Dataset:
    return created(stores, read=ReadStepNdJson(ddl_schema=("n BIGINT",)), merge=merge)


def post(stores: Stores, dataset: Dataset, *lines: str, **asked: Any) -> JobId:
    body = "".join(line + "\n" for line in lines).encode()
    given: dict[str, Any] = {"on_bad_rows": "quarantine", **asked}
    payload = IngestPayload(upload=str(Multihash.of(body)), **given)
    content = ingest_job.to_json(payload)
    spec = JobSpec(ingest_job.KIND, dataset.id, content, lock=str(dataset.id), body=body)
    return stores.jobs.submit(spec)


def receipt(stores: Stores, job: JobId) -> IngestReceipt:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded), outcome
    return ingest_job.receipt_of(outcome.result)


def refusal(stores: Stores, job: JobId) -> Failed:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Failed), outcome
    return outcome


def kept(stores: Stores, job: JobId) -> list[dict[str, Any]]:
    packed = stores.jobs.rejected(job)
    return [] if packed is None else [json.loads(x) for x in gzip.decompress(packed).splitlines()]


def test_the_good_rows_are_committed_and_the_bad_ones_counted_and_kept(
    stores: Stores, worker: Worker
) -> None:
    dataset = numbers(stores)
    job = post(stores, dataset, '{"n": 1}', '{"n": ', '{"n": 3}', "4")
    worker.work(once=True)
    told = receipt(stores, job)
    assert (told.rows_read, told.rows_added, told.rows_rejected, told.rows_known) == (4, 2, 2, 0)
    assert (told.offset_start, told.offset_end, told.rejected_job) == (0, 1, job)
    assert [(each["row"], each["raw"]) for each in kept(stores, job)] == [(2, '{"n":'), (4, "4")]


def test_batches_of_a_group_keep_their_own_bad_rows(stores: Stores, worker: Worker) -> None:
    dataset = numbers(stores)
    first = post(stores, dataset, '{"n": 1}', "[]")
    strict = post(stores, dataset, '{"n": 2}', "[]", on_bad_rows="fail")
    clean = post(stores, dataset, '{"n": 3}')
    worker.work(once=True)
    assert (receipt(stores, first).rows_rejected, len(kept(stores, first))) == (1, 1)
    assert refusal(stores, strict).error == "BadRow"
    assert (receipt(stores, clean).rows_rejected, receipt(stores, clean).rejected_job) == (0, None)
    assert (kept(stores, strict), kept(stores, clean)) == ([], [])
    assert len(stores.refs.moves(after=0)) == 2


def test_times_that_no_calendar_has_are_set_aside(stores: Stores, worker: Worker) -> None:
    read = ReadStepNdJson(ddl_schema=("event_time TIMESTAMP", "n BIGINT"))
    dataset = created(stores, read=read)
    micros = 1_577_836_800_000_000
    job = post(stores, dataset, '{"n": 1}', f'{{"event_time": {micros}, "n": 2}}', '{"n": 3}')
    worker.work(once=True)
    assert (receipt(stores, job).rows_added, receipt(stores, job).rows_rejected) == (2, 1)
    [bad] = kept(stores, job)
    assert (bad["row"], bad["column"]) == (2, "event_time")
    assert json.loads(bad["raw"]) == {"event_time": micros, "n": 2}


def test_a_batch_of_bad_rows_alone_commits_nothing_and_keeps_them(
    stores: Stores, worker: Worker
) -> None:
    dataset = numbers(stores, MergeStrategyLedger(primary_key=("n",)))
    first = post(stores, dataset, '{"n": 1}')
    worker.work(once=True)
    head = dataset.head()
    bad = post(stores, dataset, "x", '{"n": 1}')
    worker.work(once=True)
    told = receipt(stores, bad)
    assert (told.outcome, told.rows_known, told.rows_rejected) == ("up-to-date", 1, 1)
    assert dataset.head() == head != receipt(stores, first).prev_head
    assert len(kept(stores, bad)) == 1


def test_with_too_many_bad_rows_the_batch_fails_whole(stores: Stores, worker: Worker) -> None:
    dataset = numbers(stores)
    jobs = [
        post(stores, dataset, '{"n": 1}', *["x"] * 4),
        post(stores, dataset, '{"n": 1}', *["x"] * 2, max_bad_rows=1),
        post(stores, dataset, '{"n": 1}', *["x"] * 4, max_bad_rows=1000),
    ]
    head = dataset.head()
    worker.work(once=True)
    refused = [refusal(stores, job) for job in jobs]
    assert [each.error for each in refused] == ["TooManyBadRows"] * 3
    assert [each.facts["max_bad_rows"] for each in refused] == [3, 1, 3]
    assert dataset.head() == head
    assert [kept(stores, job) for job in jobs] == [[], [], []]


def test_no_row_is_left_out_of_a_snapshot(stores: Stores, worker: Worker) -> None:
    dataset = numbers(stores, MergeStrategySnapshot(primary_key=("n",)))
    job = post(stores, dataset, '{"n": 1}')
    worker.work(once=True)
    assert refusal(stores, job).error == "SnapshotNotWhole"


def test_a_dry_run_shows_what_would_be_rejected(stores: Stores, worker: Worker) -> None:
    dataset = numbers(stores)
    job = post(stores, dataset, '{"n": 1}', "x", dry_run=True)
    head = dataset.head()
    worker.work(once=True)
    assert receipt(stores, job).rows_rejected == 1
    assert len(kept(stores, job)) == 1
    assert dataset.head() == head


def test_a_job_that_was_cancelled_meanwhile_keeps_nothing(
    stores: Stores, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.jobs.ingest import claim

    dataset = numbers(stores)
    jobs = [post(stores, dataset, f'{{"n": {n}}}', "x") for n in (1, 2)]
    commit_all, cancelled = claim.commit_all, []

    def cancelling(*given: Any) -> Any:
        if not cancelled:
            cancelled.append(jobs[0])
            stores.jobs.cancel(jobs[0])
        return commit_all(*given)

    monkeypatch.setattr(claim, "commit_all", cancelling)
    worker.work(once=True)
    assert kept(stores, jobs[0]) == []
    assert (receipt(stores, jobs[1]).offset_start, len(kept(stores, jobs[1]))) == (0, 1)
