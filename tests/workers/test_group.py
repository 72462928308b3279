"""Batches of one dataset that wait together are committed together, and stay apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import created, ndjson, now, worker_of
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.metadata.events import AddData, AddPushSource, HashedBlock, SetInfo
from odf_protocol.metadata.sources import (
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepNdJson,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, IngestReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    Failed,
    JobId,
    JobSpec,
    JobStatus,
    ObjectKind,
    Succeeded,
)
from odf_workers.slices.costs import SliceCut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.program.loop import Worker

pytestmark = pytest.mark.spark


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def worker(spark: SparkSession, stores: Stores, tmp_path: Path) -> Worker:
    return worker_of(spark, stores, tmp_path)


def post(stores: Stores, dataset: Dataset, *rows: dict[str, Any], **asked: Any) -> JobId:
    """A batch that travels in its job, as small ones do."""
    body = ndjson(list(rows))
    payload = IngestPayload(upload=str(Multihash.of(body)), **asked)
    spec = JobSpec(
        ingest_job.KIND, dataset.id, ingest_job.to_json(payload), lock=str(dataset.id), body=body
    )
    return stores.jobs.submit(spec)


def receipt(stores: Stores, job: JobId) -> IngestReceipt:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded), outcome
    return ingest_job.receipt_of(outcome.result)


def offsets(stores: Stores, jobs: list[JobId]) -> list[tuple[int | None, int | None]]:
    told = [receipt(stores, job) for job in jobs]
    return [(each.offset_start, each.offset_end) for each in told]


def head_moves(stores: Stores) -> int:
    return len(stores.refs.moves(after=0))


@pytest.fixture
def before_put(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen once, between the plan of a group and its commit."""
    from odf_workers.jobs.ingest import claim

    def arrange(happens: Callable[[], None]) -> None:
        commit_all, left = claim.commit_all, [happens]

        def patched(*given: Any) -> Any:
            if left:
                left.pop()()
            return commit_all(*given)

        monkeypatch.setattr(claim, "commit_all", patched)

    return arrange


def test_batches_that_wait_together_are_committed_by_one_move(
    worker: Worker, stores: Stores
) -> None:
    dataset = created(stores)
    jobs = [post(stores, dataset, *[{"n": n}] * (n + 1)) for n in range(4)]
    worker.work(once=True)
    assert offsets(stores, jobs) == [(0, 0), (1, 2), (3, 5), (6, 9)]
    assert head_moves(stores) == 2
    told = [receipt(stores, job) for job in jobs]
    assert [len(each.blocks) for each in told] == [2, 1, 1, 1]
    assert told[1].prev_head == told[0].head
    assert told[-1].head == str(dataset.head())


def test_small_batches_that_are_appended_share_a_slice_and_keep_their_receipts(
    worker: Worker, stores: Stores
) -> None:
    dataset = created(stores)
    post(stores, dataset, {"event_time": "2024-01-01T00:00:00Z", "n": 0})
    worker.work(once=True)
    day = "2024-01-0{}T00:00:00Z"
    jobs = [
        post(stores, dataset, {"event_time": day.format(5), "n": 1}),
        post(
            stores,
            dataset,
            {"event_time": day.format(4), "n": 2},
            {"event_time": day.format(3), "n": 3},
        ),
        post(stores, dataset, {"n": 4}, source_event_time=day.format(6)),
    ]
    before = dataset.head()
    worker.work(once=True)
    (block,) = dataset.blocks(after=before)
    told = [receipt(stores, job) for job in jobs]
    assert [each.blocks for each in told] == [(str(block.hash),)] * 3
    assert {each.prev_head for each in told} == {str(before)}
    assert [(each.offset_start, each.offset_end) for each in told] == [(1, 1), (2, 3), (4, 4)]
    assert [(each.rows_read, each.rows_added) for each in told] == [(1, 1), (2, 2), (1, 1)]
    assert {each.physical_hash for each in told} == {str(block.event.new_data.physical_hash)}
    assert {each.watermark for each in told} == {day.format(6)}
    assert [row["n"] for row in rows_of(dataset, block)] == [1, 3, 2, 4]
    assert {row["system_time"] for row in rows_of(dataset, block)} == {
        datetime.fromtimestamp(block.block.system_time.millis / 1000, UTC)
    }


def test_batches_without_rows_share_a_slice_with_others_and_add_nothing(
    worker: Worker, stores: Stores
) -> None:
    dataset = created(stores, read=ReadStepNdJson(ddl_schema=("n BIGINT",)))
    first = post(stores, dataset, {"n": 1})
    worker.work(once=True)
    jobs = [post(stores, dataset), post(stores, dataset, {"n": 2}), post(stores, dataset)]
    worker.work(once=True)
    told = [receipt(stores, job) for job in jobs]
    assert [each.outcome for each in told] == ["up-to-date", "updated", "up-to-date"]
    assert offsets(stores, [first, *jobs]) == [(0, 0), (None, None), (1, 1), (None, None)]


def test_a_shared_slice_is_cut_like_any_other(worker: Worker, stores: Stores) -> None:
    worker.context = replace(
        worker.context, ingest=replace(worker.context.ingest, cut=SliceCut(rows=4))
    )
    dataset = created(stores, read=ReadStepNdJson(ddl_schema=("n BIGINT",)))
    post(stores, dataset, {"n": 0})
    worker.work(once=True)
    jobs = [post(stores, dataset, *[{"n": n}] * 3) for n in range(3)]
    worker.work(once=True)
    told = [receipt(stores, job) for job in jobs]
    assert [(each.offset_start, each.offset_end) for each in told] == [(1, 3), (4, 6), (7, 9)]
    slices = [[(s.offset_start, s.offset_end) for s in each.slices] for each in told]
    assert slices == [[(1, 4)], [(1, 4), (5, 8)], [(5, 8), (9, 9)]]


def test_what_the_dataset_requires_is_asked_of_every_batch_that_shares_a_slice(
    worker: Worker, stores: Stores
) -> None:
    declared = ReadStepNdJson(ddl_schema=("n BIGINT NOT NULL",))
    loose = AddPushSource(
        source_name="loose",
        read=ReadStepNdJson(ddl_schema=("n BIGINT",)),
        merge=MergeStrategyAppend(),
    )
    dataset = created(stores, read=declared, more=(loose,))
    post(stores, dataset, {"n": 0}, source_name="default")
    worker.work(once=True)
    good = [post(stores, dataset, {"n": n}, source_name="loose") for n in (1, 2)]
    bad = post(stores, dataset, {"n": None}, source_name="loose")
    last = post(stores, dataset, {"n": 3}, source_name="default")
    worker.work(once=True)
    assert offsets(stores, [*good, last]) == [(1, 1), (2, 2), (3, 3)]
    outcome = stores.jobs.get(bad).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error == "UnexpectedNulls"


def rows_of(dataset: Dataset, block: HashedBlock) -> list[dict[str, Any]]:
    assert isinstance(block.event, AddData)
    assert block.event.new_data is not None
    with dataset.open_object(ObjectKind.DATA, block.event.new_data.physical_hash) as stream:
        return list(pq.read_table(stream).to_pylist())


def test_a_bad_batch_fails_alone(worker: Worker, stores: Stores) -> None:
    dataset = created(stores)
    good = post(stores, dataset, {"n": 1})
    bad = post(stores, dataset, {"n": "many"})
    last = post(stores, dataset, {"n": 3})
    worker.work(once=True)
    outcome = stores.jobs.get(bad).outcome
    assert isinstance(outcome, Failed)
    assert offsets(stores, [good, last]) == [(0, 0), (1, 1)]
    assert head_moves(stores) == 2


def test_a_dry_run_within_a_group_leaves_nothing(worker: Worker, stores: Stores) -> None:
    dataset = created(stores)
    first = post(stores, dataset, {"n": 1})
    dry = post(stores, dataset, {"n": 2}, dry_run=True)
    last = post(stores, dataset, {"n": 3})
    worker.work(once=True)
    assert offsets(stores, [first, dry, last]) == [(0, 0), (1, 1), (1, 1)]
    assert dataset.state().num_records == 2
    outcome = stores.jobs.get(dry).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.result["dryRun"] is True
    assert "n" in [field["name"] for field in outcome.result["schema"]["fields"]]


@pytest.mark.parametrize(
    ("merge", "known"),
    [
        (MergeStrategyLedger(primary_key=("n",)), 1),
        (MergeStrategySnapshot(primary_key=("n",)), 1),
    ],
)
def test_a_batch_meets_the_rows_of_the_one_before_it(
    merge: Any, known: int, worker: Worker, stores: Stores
) -> None:
    dataset = created(stores, merge=merge)
    when = "2024-01-01T00:00:00Z"
    post(stores, dataset, {"n": 1, "event_time": when})
    second = post(stores, dataset, {"n": 1, "event_time": when}, {"n": 2, "event_time": when})
    worker.work(once=True)
    assert receipt(stores, second).rows_known == known
    assert receipt(stores, second).rows_added == 1


def test_when_another_writer_was_first_all_are_planned_again(
    worker: Worker, stores: Stores, before_put: Callable[[Callable[[], None]], None]
) -> None:
    dataset = created(stores)
    jobs = [post(stores, dataset, {"n": n}) for n in range(3)]
    mine = dataset.head()

    def interrupt() -> None:
        blocks, _ = author(dataset.state(), [SetInfo(description="x")], system_time=now())
        dataset.commit(blocks, expected=mine)

    before_put(interrupt)
    worker.work(once=True)
    assert offsets(stores, jobs) == [(0, 0), (1, 1), (2, 2)]
    assert receipt(stores, jobs[0]).prev_head != str(mine)


def test_a_batch_cancelled_before_the_commit_is_left_out(
    worker: Worker, stores: Stores, before_put: Callable[[Callable[[], None]], None]
) -> None:
    dataset = created(stores)
    jobs = [post(stores, dataset, {"n": n}) for n in range(3)]
    before_put(lambda: stores.jobs.cancel(jobs[1]))
    worker.work(once=True)
    assert stores.jobs.get(jobs[1]).status is JobStatus.CANCELLED
    assert offsets(stores, [jobs[0], jobs[2]]) == [(0, 0), (1, 1)]
    assert dataset.state().num_records == 2


def test_a_worker_that_ends_right_after_the_commit_has_ended_its_jobs(
    worker: Worker, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = created(stores)
    jobs = [post(stores, dataset, {"n": n}) for n in range(2)]

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(stores), "publish_heads", killed)
    with pytest.raises(KeyboardInterrupt):
        worker.work(once=True)
    assert offsets(stores, jobs) == [(0, 0), (1, 1)]
    assert dataset.state().num_records == 2


def test_a_late_worker_commits_nothing(
    worker: Worker, stores: Stores, before_put: Callable[[Callable[[], None]], None]
) -> None:
    dataset = created(stores)
    job = post(stores, dataset, {"n": 1})
    lease = timedelta(microseconds=1)
    [group] = stores.jobs.claim_groups("w", [ingest_job.KIND], lease=lease)
    before_put(
        lambda: stores.jobs.claim("other", [ingest_job.KIND], lease=timedelta(seconds=9)) and None
    )
    worker.run([group])
    assert dataset.state().num_records == 0
    assert stores.jobs.get(job).worker == "other"


def test_an_expected_head_counts_the_batches_before(worker: Worker, stores: Stores) -> None:
    dataset = created(stores)
    head = str(dataset.head())
    first = post(stores, dataset, {"n": 1}, expected_head=head)
    second = post(stores, dataset, {"n": 2}, expected_head=head)
    worker.work(once=True)
    assert receipt(stores, first).rows_added == 1
    outcome = stores.jobs.get(second).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error == "RefConflict"
