"""Files of derivatives that are lost or damaged are made again, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import add_rows, derivative, moment, node_of, root

from odf_protocol.metadata.events import ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.integrity.healing import ObjectDamaged, ObjectHealing, retry_open_damages
from odf_storage.datasets.job_payloads import heal_job, transform_job
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.stores.ports.values import JobStatus, ObjectKey, ObjectKind
from odf_workers.jobs.transform.run import run_transform
from odf_workers.program.loop import Worker

QUERY = "select event_time, city, n * 10 as n from trips"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    yield opened
    opened.close()


def worker_of(stores: Stores, scratch: Path) -> Worker:
    return Worker(
        stores=stores,
        context=node_of(stores, scratch),
        name="w",
        lease=timedelta(seconds=30),
        longest_pause_s=0.05,
    )


def computed(stores: Stores, folder: Path) -> tuple[Dataset, Dataset]:
    """A root of two slices and a derivative of two."""
    trips = root(stores, "trips")
    made = derivative(stores, "tens", [trips], QUERY)
    for number in range(2):
        rows = [("2024-01-01T00:00:00Z", f"city {number}", n) for n in range(50)]
        add_rows(stores, trips, rows, folder, at=10 * (number + 1))
        run_transform(
            stores,
            made,
            TransformPayload(),
            node_of(stores, folder),
            now=moment(10 * (number + 1) + 5),
        )
    return trips, made


def slices(dataset: Dataset) -> list[Multihash]:
    events = [block.event for block in dataset.blocks()]
    found = [getattr(event, "new_data", None) for event in events]
    return [data.physical_hash for data in found if data is not None]


def path_of(stores: Stores, dataset: Dataset, name: Multihash) -> Path:
    assert stores.objects.local_paths is not None
    return stores.objects.local_paths.path(ObjectKey(dataset.id, ObjectKind.DATA, name))


def rot(path: Path) -> bytes:
    """One bit, and no time of the file tells; what it was before."""
    before, right = path.stat(), path.read_bytes()
    path.chmod(0o644)
    damaged = bytearray(right)
    damaged[len(right) // 2] ^= 0x02
    path.write_bytes(damaged)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return right


def jobs_of(stores: Stores, kind: str) -> list[Any]:
    return list(stores.jobs.page(kinds=[kind]))


@pytest.mark.parametrize("harm", ["rot", "lose"])
def test_a_slice_of_a_derivative_is_made_again_byte_for_byte(
    stores: Stores, tmp_path: Path, harm: str
) -> None:
    _, made = computed(stores, tmp_path)
    path = path_of(stores, made, slices(made)[0])
    right = path.read_bytes()
    rot(path) if harm == "rot" else path.unlink()
    with pytest.raises(ObjectHealing):
        made.open_whole(ObjectKind.DATA, slices(made)[0])
    assert stores.damages.count() == 1
    worker_of(stores, tmp_path).work(once=True)
    assert path.read_bytes() == right
    assert stores.damages.count() == 0
    [job] = jobs_of(stores, heal_job.KIND)
    assert job.outcome.result["healedFrom"] == "recomputed"


def test_what_cannot_be_made_again_is_said_with_its_reason(stores: Stores, tmp_path: Path) -> None:
    trips, made = computed(stores, tmp_path)
    for dataset in (trips, made):
        path_of(stores, dataset, slices(dataset)[0]).unlink()
    with pytest.raises(ObjectHealing):
        made.open_whole(ObjectKind.DATA, slices(made)[0])
    worker_of(stores, tmp_path).work(once=True)
    [job] = jobs_of(stores, heal_job.KIND)
    assert job.status is JobStatus.FAILED
    assert job.outcome.error == "NotHealed"
    with pytest.raises(ObjectDamaged, match="cannot be made again"):
        made.open_whole(ObjectKind.DATA, slices(made)[0])
    assert len(jobs_of(stores, heal_job.KIND)) == 1  # not again and again


def test_what_was_given_up_is_made_again_once_its_input_is_back(
    stores: Stores, tmp_path: Path
) -> None:
    trips, made = computed(stores, tmp_path)
    paths = [path_of(stores, dataset, slices(dataset)[0]) for dataset in (trips, made)]
    lost, right = (path.read_bytes() for path in paths)
    for path in paths:
        path.unlink()
    with pytest.raises(ObjectHealing):
        made.open_whole(ObjectKind.DATA, slices(made)[0])
    worker_of(stores, tmp_path).work(once=True)
    assert stores.damages.count() == 2
    stores.objects.put(ObjectKey(trips.id, ObjectKind.DATA, slices(trips)[0]), [lost])
    retry_open_damages(stores)  # the service notices that it is back
    retry_open_damages(stores)
    worker_of(stores, tmp_path).work(once=True)
    assert paths[1].read_bytes() == right
    assert stores.damages.count() == 0


def test_a_derivative_of_damaged_rows_waits_until_they_are_healed(
    stores: Stores, tmp_path: Path
) -> None:
    """The input of the derivative is a derivative itself: its slice comes back by a replay."""
    _, made = computed(stores, tmp_path)
    again = derivative(stores, "hundreds", [made], QUERY.replace("trips", "tens"))
    rot(path_of(stores, made, slices(made)[1]))
    stores.jobs.submit(transform_job.job_of(again.id, TransformPayload()))
    worker = worker_of(stores, tmp_path)
    deadline = 200
    while jobs_of(stores, transform_job.KIND)[-1].finished_at is None and deadline:
        worker.work(once=True)
        worker.stop.wait(0.1)
        deadline -= 1
    job = jobs_of(stores, transform_job.KIND)[-1]
    assert job.status is JobStatus.SUCCEEDED, job.outcome
    rows = sum(
        block.event.new_data.offset_interval.end + 1 - block.event.new_data.offset_interval.start
        for block in again.blocks()
        if isinstance(block.event, ExecuteTransform) and block.event.new_data is not None
    )
    assert rows == 100
    assert stores.damages.count() == 0


def test_fsck_has_what_it_cannot_heal_itself_made_again(stores: Stores, tmp_path: Path) -> None:
    _, made = computed(stores, tmp_path)
    path = path_of(stores, made, slices(made)[0])
    right = rot(path)
    report = check_stores(stores, FsckOptions(repair=True))
    assert [(item.reason, item.action) for item in report.problems] == [
        ("PhysicalHashMismatch", "healing")
    ]
    worker_of(stores, tmp_path).work(once=True)
    assert path.read_bytes() == right
    assert check_stores(stores).ok
