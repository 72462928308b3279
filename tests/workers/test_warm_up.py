"""Spark warms up beside the first jobs of a worker: these wait for it only if they need Spark."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from servers import wait_until
from tests.workers.datasets import created, ndjson, submit, worker_of
from throwaway import throwaway_stores

from odf_storage.stores.ports.values import Succeeded

PATIENCE_S = 60


class SlowSpark:
    """What stands for the start of Spark: it lasts until `go`, then makes a session or fails."""

    def __init__(self) -> None:
        self.go, self.began = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def __call__(self, _: Any) -> Any:
        self.began.set()
        assert self.go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return mock.Mock()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowSpark:
    from odf_workers.engines.spark import session as spark
    from odf_workers.program import engines

    made = SlowSpark()
    monkeypatch.setattr(spark, "start_spark", made)
    monkeypatch.setattr(engines, "warm_up", lambda *_, **__: None)
    return made


@pytest.fixture
def worker(slow: SlowSpark, tmp_path: Path) -> Any:
    from odf_workers.engines.spark.session import SparkOptions, SparkWhenNeeded

    made = worker_of(SparkWhenNeeded(SparkOptions()), throwaway_stores(), tmp_path)  # type: ignore[arg-type]
    made.renew_spark = lambda: None
    return made


def test_a_posted_row_is_received_while_spark_warms_up(worker: Any, slow: SlowSpark) -> None:
    from odf_workers.program.wiring import WarmUp

    job = submit(worker.stores, created(worker.stores), ndjson([{"n": 1}]))
    with ExitStack() as ending:
        WarmUp(worker).start(ending)
        ending.callback(slow.go.set)
        worker.work(once=True)
        assert isinstance(worker.stores.jobs.get(job).outcome, Succeeded)


def test_what_needs_spark_waits_until_it_is_warm(
    worker: Any, slow: SlowSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.program import engines
    from odf_workers.program.wiring import WarmUp

    order: list[str] = []
    monkeypatch.setattr(engines, "warm_up", lambda *_, **__: order.append("warm"))
    session = worker.context.engines.session

    def needs_spark() -> None:
        session.newSession()
        order.append("job")

    with ExitStack() as ending:
        WarmUp(worker).start(ending)
        job = threading.Thread(target=needs_spark)
        job.start()
        assert slow.began.wait(PATIENCE_S)
        assert order == []
        slow.go.set()
        job.join(PATIENCE_S)
    assert order == ["warm", "job"]


def test_a_worker_whose_spark_does_not_start_ends_and_keeps_what_it_received(
    worker: Any, slow: SlowSpark
) -> None:
    from odf_workers.program.loop import EngineGone
    from odf_workers.program.wiring import WarmUp

    slow.error = OSError("its Java ended with code 1")
    job = submit(worker.stores, created(worker.stores), ndjson([{"n": 1}]))
    warm_up = WarmUp(worker)
    with ExitStack() as ending:
        warm_up.start(ending)
        worker.work(once=True)
        slow.go.set()
        worker.work()  # ends by itself
    assert isinstance(worker.stores.jobs.get(job).outcome, Succeeded)
    with pytest.raises(EngineGone, match="its Java ended with code 1"):
        warm_up.check()


def test_a_worker_with_a_cluster_takes_no_job_before_it_is_warm(
    worker: Any, slow: SlowSpark
) -> None:
    from odf_workers.program.loop import EngineGone
    from odf_workers.program.wiring import WarmUp

    worker.renew_spark = None  # as of a cluster
    slow.error = OSError("no master")
    slow.go.set()
    with ExitStack() as ending, pytest.raises(EngineGone, match="no master"):
        WarmUp(worker).start(ending)


def test_a_warm_up_begins_nothing_more_once_the_worker_is_to_end(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.workers.datasets import now

    from odf_workers.program import engines

    monkeypatch.undo()
    ran: list[str] = []
    monkeypatch.setattr(engines, "run_ingest", lambda *_, **__: ran.append("ingest"))
    engines.warm_up(worker.context, now=now(), is_over=lambda: True)
    assert ran == []


def test_files_lent_by_a_warm_up_stay_when_a_job_beside_it_ends(
    worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.engines.spark import jvm

    scratch, slice_ = tmp_path / "scratch", tmp_path / "slice"
    scratch.mkdir()
    slice_.write_bytes(b"rows")
    monkeypatch.setattr(jvm, "_sight", None)
    jvm.sees(scratch, ())
    began, over = threading.Event(), threading.Event()
    lent: list[Path] = []

    def warms_up() -> None:
        with worker.context.engines.session.alone():
            lent.extend(jvm.shown([slice_]))
            began.set()
            assert over.wait(PATIENCE_S)

    warming = threading.Thread(target=warms_up)
    warming.start()
    assert began.wait(PATIENCE_S)
    job = submit(worker.stores, created(worker.stores), ndjson([{"n": 1}]))
    worker.work(once=True)
    assert isinstance(worker.stores.jobs.get(job).outcome, Succeeded)
    assert lent[0].read_bytes() == b"rows"
    over.set()
    warming.join(PATIENCE_S)
    submit(worker.stores, created(worker.stores, number=2), ndjson([{"n": 1}]))
    worker.work(once=True)
    wait_until(lambda: not lent[0].exists(), "the link is removed")
