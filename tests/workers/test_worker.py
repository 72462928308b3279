"""The worker goes on after whatever a job does, and jobs survive their worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from tests.workers.datasets import created, ndjson, submit, worker_of
from throwaway import throwaway_stores

from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Failed, JobSpec, JobStatus, Succeeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.program.loop import Worker

pytestmark = pytest.mark.spark
PATIENCE_S = 120


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def worker(spark: SparkSession, stores: Stores, tmp_path: Path) -> Worker:
    return worker_of(spark, stores, tmp_path)


def test_a_bad_batch_is_an_outcome_and_the_next_job_runs(worker: Worker, stores: Stores) -> None:
    dataset = created(stores)
    bad = submit(stores, dataset, b'{"n": 1}\n{"n": \n')
    good = submit(stores, dataset, ndjson([{"n": 1}]))
    worker.work(once=True)
    outcome = stores.jobs.get(bad).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error == "BadRow"
    assert outcome.facts["line"] in (2, 3)
    done = stores.jobs.get(good).outcome
    assert isinstance(done, Succeeded)
    assert ingest_job.receipt_of(done.result).rows_added == 1


@pytest.mark.parametrize("payload", [{}, {"upload": 5}, {"upload": "nonsense"}, {"surprise": []}])
def test_a_payload_that_makes_no_sense_is_an_outcome(
    payload: dict[str, Any], worker: Worker, stores: Stores
) -> None:
    dataset = created(stores)
    job = stores.jobs.submit(JobSpec(ingest_job.KIND, dataset.id, payload))
    worker.work(once=True)
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error != "Internal"


def test_a_fault_of_the_node_is_told_without_its_insides(
    worker: Worker, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.jobs.ingest import round as rounds

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(rounds, "write_batch", broken)
    job = submit(stores, created(stores), ndjson([{"n": 1}]))
    worker.work(once=True)
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error == "Internal"
    assert "secret" not in outcome.message


def test_a_job_that_ends_its_workers_is_given_up(worker: Worker, stores: Stores) -> None:
    from odf_workers.program.loop import MAX_ATTEMPTS

    job = submit(stores, created(stores), ndjson([{"n": 1}]))
    for number in range(MAX_ATTEMPTS):
        stores.jobs.claim(f"gone-{number}", [ingest_job.KIND], lease=timedelta(microseconds=1))
        time.sleep(0.001)
    worker.work(once=True)
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error == "JobAbandoned"


def test_warming_up_leaves_nothing_behind(worker: Worker, stores: Stores) -> None:
    from tests.workers.datasets import now

    from odf_workers.program.engines import warm_up

    before = set(worker.context.scratch.iterdir())
    warm_up(worker.context, now=now())
    assert stores.registry.page() == []
    assert set(worker.context.scratch.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "environment", "warm"),
    [
        ((), {}, True),
        ((), {"ODF_WORKER_WARM_UP": "false"}, False),
        (("--no-warm-up",), {}, False),
        (("--warm-up",), {"ODF_WORKER_WARM_UP": "false"}, True),
        (("--once",), {}, False),
    ],
)
def test_a_worker_warms_up_unless_it_is_told_not_to(
    words: tuple[str, ...],
    environment: dict[str, str],
    warm: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from click.testing import CliRunner

    from odf_workers import main as cli
    from odf_workers.program import wiring as lifetime

    did: list[str] = []
    worker = mock.Mock()
    worker.work.side_effect = lambda *, once: did.append("work")
    monkeypatch.setattr(lifetime, "worker_of", lambda *_: worker)
    monkeypatch.setattr(lifetime.WarmUp, "start", lambda *_: did.append("warm up"))
    for name in ("_stop_on_signals", "set_up"):
        monkeypatch.setattr(lifetime, name, lambda *_: None)
    done = CliRunner().invoke(
        cli.main, ["--data", str(tmp_path), *words], env=environment, catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert did == (["warm up", "work"] if warm else ["work"])


def test_a_worker_that_is_interrupted_while_it_imports_ends_without_a_word() -> None:
    code = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
import odf_workers.main
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


class Process:
    """A worker as its own process."""

    def __init__(self, data: Path, *arguments: str, **environment: str) -> None:
        command = [
            sys.executable,
            "-m",
            "odf_workers.main",
            "--data",
            str(data),
            "--no-warm-up",
        ]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "ODF_WORKER_LEASE_S": "2", **environment},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            if "worker ready" in text:
                return
        raise AssertionError(f"the worker ended with code {self.process.wait()}")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.reap()

    def reap(self) -> int:
        code = self.process.wait(timeout=PATIENCE_S)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Any]:
    started: list[Process] = []

    def start(*arguments: str, **environment: str) -> Process:
        started.append(Process(tmp_path, *arguments, **environment))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.end(signal.SIGKILL)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for too long"
        time.sleep(0.005)


def test_a_job_of_a_killed_worker_is_finished_by_another_without_doubled_rows(
    processes: Any, tmp_path: Path
) -> None:
    stores = open_stores(StoreSettings(data=tmp_path))
    dataset = created(stores)
    first, second = processes(), processes()
    first.wait_ready()
    second.wait_ready()
    body = ndjson([{"n": n, "text": "x" * 20} for n in range(400_000)])
    job = submit(stores, dataset, body)
    wait_for(lambda: stores.jobs.get(job).status is JobStatus.RUNNING)
    time.sleep(0.1)
    holder = stores.jobs.get(job).worker or ""
    killed, other = (first, second) if f"-{first.process.pid}-" in holder else (second, first)
    killed.end(signal.SIGKILL)
    wait_for(lambda: stores.jobs.get(job).outcome is not None)
    done = stores.jobs.get(job)
    assert isinstance(done.outcome, Succeeded)
    assert done.attempt == 2
    assert dataset.state().num_records == 400_000
    assert other.end(signal.SIGTERM) == 0
    stores.close()


def test_a_worker_ends_with_its_parent(processes: Any) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    worker = processes("--parent-pid", str(parent.pid))
    worker.wait_ready()
    parent.kill()
    parent.wait()
    assert worker.reap() == 0
