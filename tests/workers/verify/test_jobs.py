"""Jobs of compaction and verification run from the queue to their outcome."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import add_rows, derivative, moment, node_of, root
from throwaway import throwaway_stores

from odf_protocol.identity import DatasetId
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import compact_job, verify_job
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import receipt_of
from odf_storage.stores.ports.values import Failed, JobOutcome, JobSpec, Succeeded
from odf_workers.jobs.transform.run import run_transform
from odf_workers.program.loop import Worker


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def worker(stores: Stores, tmp_path: Path) -> Worker:
    return Worker(
        stores=stores,
        context=node_of(stores, tmp_path),
        name="here",
        lease=timedelta(seconds=30),
        longest_pause_s=0.04,
    )


@pytest.fixture
def pair(stores: Stores, worker: Worker, tmp_path: Path) -> tuple[Dataset, Dataset]:
    """A root of three slices, and what was computed of it."""
    source = root(stores, "cities")
    for n in range(3):
        add_rows(stores, source, [(f"2024-01-0{n + 1}T00:00:00Z", "a", n)], tmp_path, at=10 + n)
    made = derivative(stores, "tens", [source], "select event_time, n * 10 as n from cities")
    run_transform(stores, made, TransformPayload(), worker.context, now=moment(100))
    return source, made


def outcome(
    stores: Stores, worker: Worker, kind: str, dataset: DatasetId, payload: dict[str, Any]
) -> JobOutcome | None:
    job = stores.jobs.submit(JobSpec(kind, dataset, payload))
    worker.work(once=True)
    return stores.jobs.get(job).outcome


def test_a_verification_then_a_compaction_then_a_verification_again(
    stores: Stores, worker: Worker, pair: tuple[Dataset, Dataset]
) -> None:
    source, made = pair
    asked = verify_job.to_json(VerifyPayload(inputs=(str(source.id),)))
    found = outcome(stores, worker, verify_job.KIND, made.id, asked)
    assert isinstance(found, Succeeded)
    before = verify_job.answer_of(found.result)
    assert (before.ok, before.datasets[1].replayed) == (True, 1)
    joined = outcome(
        stores, worker, compact_job.KIND, source.id, compact_job.to_json(CompactPayload())
    )
    assert isinstance(joined, Succeeded)
    receipt = receipt_of(joined.result)
    assert (receipt.blocks_before, receipt.blocks_after, receipt.head) == (5, 3, str(source.head()))
    again = outcome(stores, worker, verify_job.KIND, made.id, asked)
    assert isinstance(again, Succeeded)
    after = verify_job.answer_of(again.result)
    assert (after.ok, after.datasets[1].replayed, after.datasets[1].not_verifiable) == (True, 0, 1)


@pytest.mark.parametrize(
    ("kind", "payload", "error"),
    [
        (compact_job.KIND, {"maxSliceSize": "much"}, "MalformedJob"),
        (compact_job.KIND, {}, "InvalidDatasetKind"),
        (verify_job.KIND, {"rows": 1}, "MalformedJob"),
        (verify_job.KIND, {"after": "f1620" + "0" * 64}, "InvalidInterval"),
    ],
)
def test_what_cannot_be_done_is_an_outcome(
    stores: Stores,
    worker: Worker,
    pair: tuple[Dataset, Dataset],
    kind: str,
    payload: dict[str, Any],
    error: str,
) -> None:
    found = outcome(stores, worker, kind, pair[1].id, payload)
    assert isinstance(found, Failed)
    assert found.error == error
