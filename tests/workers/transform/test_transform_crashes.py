"""Whatever ends a worker in the middle of a transform: every row is there, and once."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import add_rows, derivative, node_of, read, root

from odf_protocol.metadata.events import ExecuteTransform
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, job_of
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import JobStatus
from odf_workers.plan.transform import IterationLimits
from odf_workers.program.loop import Worker

COPY = "select op, event_time, city, n * 10 as n from cities"
DAY = "2024-01-01T00:00:00Z"


class Killed(BaseException):
    """The end of a worker."""


@pytest.fixture
def stores(tmp_path: Path) -> Any:
    opened = open_stores(StoreSettings(data=tmp_path / "node"))
    yield opened
    opened.close()


def worker(stores: Stores, folder: Path, name: str = "one", **options: Any) -> Worker:
    scratch = folder / name
    scratch.mkdir(exist_ok=True)
    return Worker(
        stores=stores,
        context=node_of(stores, scratch, **options),
        name=name,
        lease=timedelta(seconds=30),
        longest_pause_s=0.01,
    )


@pytest.mark.parametrize(
    ("place", "when"),
    [
        ("objects.put", "before"),
        ("objects.put", "after"),
        ("refs.move", "before"),
        ("refs.move", "after"),
        ("jobs.finish", "before"),
    ],
)
def test_a_worker_that_dies_anywhere_leaves_whole_work_to_the_next(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, when: str
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY)
    for n in range(3):
        add_rows(stores, cities, [(DAY, "A", n)], tmp_path, at=10 + n)
    job = stores.jobs.submit(job_of(tens.id, TransformPayload()))
    part, name = place.split(".")
    target = getattr(stores, part)
    real = getattr(target, name)

    def deadly(*given: Any, **more: Any) -> Any:
        if when == "before":
            raise Killed
        real(*given, **more)
        raise Killed

    limits = IterationLimits(rows=2, bytes=1 << 30)
    with monkeypatch.context() as patch:
        patch.setattr(target, name, deadly)
        with pytest.raises(Killed):
            worker(stores, tmp_path, limits=limits).work(once=True)
    assert len(read(stores, tens)) in (0, 2, 3)
    stores.jobs.extend(job, "one", lease=timedelta(0))  # as if it had run out
    worker(stores, tmp_path, "two", limits=limits).work(once=True)
    assert [row["n"] for row in read(stores, tens)] == [0, 10, 20]
    assert [row["offset"] for row in read(stores, tens)] == [0, 1, 2]
    done = stores.jobs.get(job)
    assert (done.status, done.attempt) == (JobStatus.SUCCEEDED, 2)


def test_two_workers_at_one_derivative_do_its_work_once(stores: Stores, tmp_path: Path) -> None:
    from odf_workers.jobs.transform.run import run_transform

    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY)
    problems: list[BaseException] = []
    stop = threading.Event()

    def compute(name: str) -> None:
        limits = IterationLimits(rows=3, bytes=1 << 30)
        bench = worker(stores, tmp_path, name, limits=limits).context
        at = 5000
        try:
            while not stop.is_set() or run_until_read(bench, at):
                run_until_read(bench, at)
                at += 1
        except BaseException as problem:
            problems.append(problem)

    def run_until_read(bench: Any, at: int) -> bool:
        from tests.workers.derivatives import moment

        from odf_storage.stores.ports.errors import RefConflict

        try:
            payload = TransformPayload()
            done = run_transform(stores, tens, payload, bench, now=moment(at))
        except RefConflict:
            return True
        return done.outcome == "updated"

    threads = [threading.Thread(target=compute, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for n in range(12):
        add_rows(stores, cities, [(DAY, "A", n)], tmp_path, at=10 + n)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert [row["n"] for row in read(stores, tens)] == [n * 10 for n in range(12)]
    executed = [b.event for b in tens.blocks() if isinstance(b.event, ExecuteTransform)]
    assert all(event.new_data is not None for event in executed)


def test_what_a_job_leaves_undone_is_queued_behind_others(stores: Stores, tmp_path: Path) -> None:
    cities = root(stores, "cities")
    names = ("first", "second")
    made = [derivative(stores, name, [cities], COPY) for name in names]
    for n in range(3):
        add_rows(stores, cities, [(DAY, "A", n)], tmp_path, at=10 + n)
    for dataset in made:
        stores.jobs.submit(job_of(dataset.id, TransformPayload()))
    limits = IterationLimits(rows=1, bytes=1 << 30)
    worker(stores, tmp_path, limits=limits, seconds=0.0).work(once=True)
    ran = [job.spec.dataset for job in stores.jobs.page()]
    assert ran == [made[0].id, made[1].id] * 3
    assert [len(read(stores, dataset)) for dataset in made] == [3, 3]
