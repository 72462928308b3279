"""The worker's loop: claim, run, finish, again; and how it starts and ends.

Whatever a job does wrong is an outcome of the job; the worker goes on. It ends when it is
asked to, when its parent is gone, or when its Spark is, after the job at hand.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JNetworkError

from protocol.errors import BadInput, NodeError
from protocol.identity import DatasetRef
from protocol.instant import Instant
from storage import ingest_job, poll_job
from storage.errors import LeaseLost
from storage.stores import Stores
from storage.values import Failed, Job, JobOutcome, Succeeded

from .ingest.poll import run_poll
from .ingest.run import Bench, run_ingest
from .lease import held
from .log import LOGGER, line

FIRST_PAUSE_S = 0.005
MAX_ATTEMPTS = 5
"""A job that took down so many workers is given up."""
PARENT_CHECK_S = 1.0
INTERNAL = "Internal"
INTERNAL_MESSAGE = "the job failed for a reason inside of the node; its log says more"


class MalformedJob(BadInput):
    """A job whose payload or dataset this worker cannot make sense of."""


class JobAbandoned(NodeError):
    """The job ended its worker too often."""


class EngineGone(Exception):
    """Spark is not there any more; the process has to be started anew."""


@dataclass(slots=True, kw_only=True)
class Worker:
    """One worker. `name` tells leases apart; `stop` ends the loop between two jobs."""

    stores: Stores
    bench: Bench
    name: str
    lease: timedelta
    longest_pause_s: float
    stop: threading.Event = field(default_factory=threading.Event)

    def work(self, *, once: bool = False) -> None:
        """Run jobs until asked to stop; with `once`, until none is left."""
        pause = FIRST_PAUSE_S
        while not self.stop.is_set():
            job = self._claim()
            if job is not None:
                self.run(job)
                pause = FIRST_PAUSE_S
            elif once:
                return
            else:
                self.stop.wait(pause)
                pause = min(self.longest_pause_s, pause * 2)

    def _claim(self) -> Job | None:
        try:
            return self.stores.jobs.claim(self.name, HANDLERS, lease=self.lease)
        except Exception:  # a busy or restarting database: ask again
            LOGGER.exception("claim failed")
            self.stop.wait(1.0)
            return None

    def run(self, job: Job) -> None:
        """Run one claimed job and report its outcome. Raises `EngineGone` only."""
        began = time.monotonic()
        with held(self.stores.jobs, job, self.name, lease=self.lease):
            outcome = self._outcome(job)
            try:
                self.stores.jobs.finish(job.id, self.name, outcome)
            except LeaseLost:
                LOGGER.warning(line("outcome of a job that was lost", job=job.id))
                return
        self._log(job, outcome, time.monotonic() - began)

    def _outcome(self, job: Job) -> JobOutcome:
        try:
            if job.attempt > MAX_ATTEMPTS:
                raise JobAbandoned(f"the job was given up after {job.attempt - 1} attempts")
            return Succeeded(HANDLERS[job.spec.kind](self, job))
        except NodeError as error:
            return Failed(type(error).__name__, error.message, dict(error.facts))
        except (Py4JNetworkError, ConnectionError) as gone:
            raise EngineGone("Spark does not answer any more") from gone
        except Exception:
            LOGGER.exception(line("job failed inside", job=job.id, dataset=job.spec.dataset))
            return Failed(INTERNAL, INTERNAL_MESSAGE)

    def _log(self, job: Job, outcome: JobOutcome, seconds: float) -> None:
        facts = {"job": job.id, "dataset": job.spec.dataset, "seconds": seconds}
        if isinstance(outcome, Succeeded):
            result = {key: outcome.result.get(key) for key in ("outcome", "rowsAdded", "head")}
            LOGGER.info(line("job done", **facts, **result))
        else:
            LOGGER.warning(
                line("job failed", **facts, error=outcome.error, message=outcome.message)
            )

    def ingest(self, job: Job) -> dict[str, Any]:
        """One pushed batch. The job's submission is the time of its blocks, so that a
        repeated job makes the blocks it made before."""
        if job.spec.dataset is None:
            raise MalformedJob("an ingest job names no dataset")
        try:
            payload = ingest_job.payload_of(job.spec.payload)
        except ValueError as bad:
            raise MalformedJob(f"the payload of an ingest job cannot be read: {bad}") from None
        dataset = self.stores.dataset(DatasetRef.parse(str(job.spec.dataset)))
        receipt = run_ingest(
            dataset, payload, self.bench, now=job.submitted_at, repeated=job.attempt > 1
        )
        return ingest_job.to_json(receipt)

    def poll(self, job: Job) -> dict[str, Any]:
        """Fetches of a polling source; the job's submission is the time of all its blocks."""
        if job.spec.dataset is None:
            raise MalformedJob("a poll job names no dataset")
        try:
            payload = poll_job.payload_of(job.spec.payload)
        except ValueError as bad:
            raise MalformedJob(f"the payload of a poll job cannot be read: {bad}") from None
        dataset = self.stores.dataset(DatasetRef.parse(str(job.spec.dataset)))
        receipt = run_poll(
            dataset, payload, self.bench, now=job.submitted_at, repeated=job.attempt > 1
        )
        return poll_job.to_json(receipt)


HANDLERS: Mapping[str, Callable[[Worker, Job], dict[str, Any]]] = {
    ingest_job.KIND: Worker.ingest,
    poll_job.KIND: Worker.poll,
}
"""What a worker does, by kind of job."""


def watch_parent(parent: int, stop: threading.Event) -> None:
    """Set `stop` once the process `parent` is gone."""

    def watch() -> None:
        while not stop.wait(PARENT_CHECK_S):
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                LOGGER.warning(line("parent is gone", parent=parent))
                stop.set()
            except PermissionError:
                continue

    threading.Thread(target=watch, name="parent", daemon=True).start()


def now() -> Instant:
    return Instant(time.time_ns())
