"""Small posts to several datasets are committed by one transaction, and stay apart."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workers.datasets import bench_without_engine, created, now

from odf_protocol.errors import Unavailable
from odf_protocol.metadata.events import SetInfo
from odf_protocol.metadata.sources import MergeStrategyLedger, MergeStrategyUpsertStream
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job, query_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, IngestReceipt
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.index.sql_sizes import NODE
from odf_storage.stores.ports.values import Failed, Job, JobId, JobSpec, JobStatus, Succeeded
from odf_workers.jobs.ingest import claim
from odf_workers.jobs.ingest import round as rounds
from odf_workers.program.loop import KINDS_OF, Worker


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=tmp_path / "node"))
    yield opened
    opened.close()


@pytest.fixture
def worker(stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Without Spark: rows that are only appended do without. Its rounds take as long as they need:
    on a busy machine, the posts of a test may not fit into a second."""
    monkeypatch.setattr(rounds, "ROUND_S", 600.0)
    monkeypatch.setattr(claim, "TURN_S", 600.0)
    bench = bench_without_engine(stores, tmp_path)
    return Worker(
        stores=stores, context=bench, name="w", lease=timedelta(seconds=30), longest_pause_s=0.04
    )


def post(stores: Stores, dataset: Dataset, *rows: int, body: bytes | None = None) -> JobId:
    content = body or "".join(json.dumps({"n": n}) + "\n" for n in rows).encode()
    payload = ingest_job.to_json(IngestPayload(upload=str(Multihash.of(content))))
    return stores.jobs.submit(
        JobSpec(ingest_job.KIND, dataset.id, payload, lock=str(dataset.id), body=content)
    )


def begun(stores: Stores, worker: Worker, count: int) -> list[Dataset]:
    """Datasets that have a schema and a row."""
    datasets = [created(stores, number=number + 1) for number in range(count)]
    for dataset in datasets:
        post(stores, dataset, 0)
    worker.work(once=True)
    return datasets


def told(stores: Stores, job: JobId) -> tuple[int | None, int | None, str]:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded), outcome
    receipt: IngestReceipt = ingest_job.receipt_of(outcome.result)
    return receipt.offset_start, receipt.offset_end, receipt.head


@contextmanager
def moves_of(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Any]]]:
    """Datasets of every transaction that moved several heads."""
    seen: list[list[Any]] = []
    move_all = stores.refs.move_all

    def watched(wanted: Any) -> Any:
        refused = move_all(wanted)
        seen.append([m.dataset for m, error in zip(wanted, refused, strict=True) if not error])
        return refused

    monkeypatch.setattr(stores.refs, "move_all", watched)
    yield seen


def test_posts_of_several_datasets_share_a_transaction_and_keep_their_receipts(
    worker: Worker, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = begun(stores, worker, 3)
    jobs = [[post(stores, d, 1, 2), post(stores, d, 3)] for d in datasets]
    ended: list[Job] = []
    worker.on_end = lambda job, *_: ended.append(job)
    with moves_of(stores, monkeypatch) as seen:
        worker.work(once=True)
    assert seen == [[d.id for d in datasets]]
    for dataset, (first, second) in zip(datasets, jobs, strict=True):
        head = str(dataset.head())
        assert told(stores, first) == (1, 2, head)
        assert told(stores, second) == (3, 3, head)
        assert stores.objects.read_ref(dataset.id, "head") == dataset.head()
    assert {job.id for job in ended} == {job for pair in jobs for job in pair}


def test_posts_of_every_kind_go_together_and_a_bad_one_fails_alone(
    worker: Worker, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, bad, last = begun(stores, worker, 3)
    new = created(stores, number=9)
    ledger = created(stores, number=8, merge=MergeStrategyLedger(primary_key=("n",)))
    jobs = [post(stores, d, 5) for d in (first, last, new, ledger)]
    broken = post(stores, bad, body=b"{broken\n")
    good = post(stores, bad, 6)
    with moves_of(stores, monkeypatch) as seen:
        worker.work(once=True)
    assert seen == [[each.id for each in (first, last, new, ledger, bad)]]
    assert [told(stores, job)[:2] for job in jobs] == [(1, 1), (1, 1), (0, 0), (0, 0)]
    assert isinstance(stores.jobs.get(broken).outcome, Failed)
    assert told(stores, good)[:2] == (1, 1)


def test_a_small_body_may_be_packed(worker: Worker, stores: Stores) -> None:
    (dataset,) = begun(stores, worker, 1)
    jobs = [
        post(stores, dataset, body=gzip.compress(b'{"n": 1}\n{"n": 2}\n', mtime=n)) for n in (0, 1)
    ]
    worker.work(once=True)
    assert [told(stores, job)[:2] for job in jobs] == [(1, 2), (3, 4)]


def test_who_was_first_elsewhere_and_who_was_cancelled_keep_nobody_else_waiting(
    worker: Worker, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, raced, cancelled = begun(stores, worker, 3)
    jobs = [post(stores, dataset, 7) for dataset in (first, raced, cancelled)]
    move_all = stores.refs.move_all

    def late(wanted: Any) -> Any:
        monkeypatch.setattr(stores.refs, "move_all", move_all)
        from odf_protocol.chain.rules import author

        state = raced.state()
        assert state.head is not None
        blocks, _ = author(state, [SetInfo(description="first")], system_time=now())
        raced.commit(blocks, expected=state.head)
        stores.jobs.cancel(jobs[2])
        return move_all(wanted)

    monkeypatch.setattr(stores.refs, "move_all", late)
    before = cancelled.head()
    worker.work(once=True)
    assert [told(stores, job)[:2] for job in jobs[:2]] == [(1, 1), (1, 1)]
    assert stores.jobs.get(jobs[2]).status is JobStatus.CANCELLED
    assert cancelled.head() == before
    assert [type(block.event).__name__ for block in raced.blocks()][-2:] == ["SetInfo", "AddData"]


def test_an_outage_after_the_commit_doubles_nothing(
    worker: Worker, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = begun(stores, worker, 3)
    jobs = [post(stores, dataset, 7) for dataset in datasets]

    def away(*_: Any) -> None:
        raise Unavailable("the store is away")

    monkeypatch.setattr(type(stores), "publish_heads", away)
    worker.work(once=True)
    assert [told(stores, job)[:2] for job in jobs] == [(1, 1)] * 3
    assert [len(dataset.blocks()) for dataset in datasets] == [5] * 3


def test_queries_of_readers_and_posts_are_taken_by_the_workers_that_are_for_them(
    stores: Stores, worker: Worker
) -> None:
    (dataset,) = begun(stores, worker, 1)
    query = stores.jobs.submit(JobSpec(query_job.KIND, None, {}, lock="query:a"))
    posted = post(stores, dataset, 2)
    replace(worker, kinds=KINDS_OF["others"]).work(once=True)
    assert stores.jobs.get(query).status is JobStatus.WAITING
    assert isinstance(stores.jobs.get(posted).outcome, Succeeded)
    posted = post(stores, dataset, 3)
    replace(worker, kinds=KINDS_OF["queries"], idle_s=0.1).work()  # and it ends when idle
    assert stores.jobs.get(query).status is JobStatus.FAILED  # it is no query at all
    assert stores.jobs.get(posted).status is JobStatus.WAITING


def test_the_log_says_where_a_row_was_bad_and_not_its_value(
    stores: Stores, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    (dataset,) = begun(stores, worker, 1)
    bad = post(stores, dataset, body=b'{"n": 1}\n{"n": s3cr3t}\n')
    worker.work(once=True)
    outcome = stores.jobs.get(bad).outcome
    assert isinstance(outcome, Failed)
    assert "s3cr3t" in outcome.message
    assert "error=BadRow line=2" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_posts_that_fit_into_a_quota_together_with_one_that_does_not_are_stored(
    worker: Worker, stores: Stores
) -> None:
    full, other = begun(stores, worker, 2)
    used = stores.quotas.usage(NODE).used
    stores.quotas.set_limit(NODE, used + 20_000)
    some = random.Random(1)
    large = post(stores, full, *(some.getrandbits(60) for _ in range(3000)))
    small, elsewhere = post(stores, full, 6), post(stores, other, 7)
    worker.work(once=True)
    outcome = stores.jobs.get(large).outcome
    assert isinstance(outcome, Failed), outcome
    assert outcome.error == "QuotaExceeded"
    assert outcome.facts["limit"] == used + 20_000
    assert told(stores, small)[:2] == (1, 1)
    assert told(stores, elsewhere)[:2] == (1, 1)


def test_above_a_quota_rows_are_taken_back_and_none_is_added(
    worker: Worker, stores: Stores
) -> None:
    upserts = MergeStrategyUpsertStream(primary_key=("n",))
    dataset = created(stores, number=7, merge=upserts)
    post(stores, dataset, 0, 1)
    worker.work(once=True)
    stores.quotas.set_limit(NODE, 1)
    added = post(stores, dataset, 2)
    worker.work(once=True)
    back = post(stores, dataset, body=b'{"op": 1, "n": 0}\n')
    worker.work(once=True)
    refused = stores.jobs.get(added).outcome
    assert isinstance(refused, Failed)
    assert refused.error == "QuotaExceeded"
    assert told(stores, back)[:2] == (2, 2)
    both = post(stores, dataset, body=b'{"op": 1, "n": 1}\n{"op": 0, "n": 5}\n')
    worker.work(once=True)
    assert isinstance(stores.jobs.get(both).outcome, Failed)
