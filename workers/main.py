"""The worker's loop: claim, run, finish, again; and how it starts and ends.

Whatever a job does wrong is an outcome of the job; the worker goes on. It ends when it is
asked to, or when its parent is gone, after the job at hand. When its Spark is gone, the job rests,
and others are run with another Spark; a job that ends it again and again is given up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from py4j.protocol import Py4JNetworkError

from protocol.errors import BadInput, NodeError
from protocol.identity import DatasetRef
from protocol.instant import Instant
from storage.bells.port import Topic
from storage.context import part_of
from storage.contracts import compact_job, ingest_job, poll_job, transform_job, verify_job
from storage.dataset import Dataset
from storage.errors import LeaseLost
from storage.history import receipt as history_receipt
from storage.stores import Stores
from storage.tracing import span
from storage.trouble import Unavailable
from storage.values import DatasetEntry, Failed, Job, JobEnd, JobId, JobOutcome, Succeeded

from .compact.run import run_compaction
from .engine import exchange, jvm
from .ingest.bench import Bench
from .ingest.group import Batch, IngestGroup
from .ingest.poll import run_poll
from .ingest.several import run_several
from .lease import held
from .log import LOGGER, line
from .meter import Meter
from .transform.check import run_check
from .transform.run import run_transform
from .verify.candidate import run_candidate
from .verify.run import run_verification

P = TypeVar("P")

TOGETHER = {ingest_job.KIND: 128}
"""Jobs of one dataset that are run together, by kind."""
DATASETS_AT_ONCE = 16
"""Datasets whose small posts are taken together. The service answers those while the worker is
at others that wait; were all of them taken at once, each would wait for the other's part."""
MAX_ATTEMPTS = 5
"""Unless a setting says so: a job that took down so many workers, or as often met a part of the
node that was away, is given up."""
FIRST_PAUSE_S, PAUSE_GROWTH = 2.0, 4
"""How long a job rests whose database, object store or Spark was away, and how much longer each
time: others are run meanwhile."""
MEMORY_SETTING = "ODF_NODE_SPARK_DRIVER_MEMORY"
PARENT_CHECK_S = 1.0
INTERNAL = "Internal"
INTERNAL_MESSAGE = "the job failed for a reason inside of the node; its log says more"


class MalformedJob(BadInput):
    """A job whose payload or dataset this worker cannot make sense of."""


class JobAbandoned(NodeError):
    """The job ended its worker, or its Spark, too often."""


class Interrupted(Exception):
    """The database or the object store is away: the job begins again after a pause."""


class EngineGone(Exception):
    """Spark is not there any more; why, for people."""


def abandoned(tries: int, ended: str) -> JobAbandoned:
    return JobAbandoned(
        f"the job was given up after {tries} {'try' if tries == 1 else 'tries'}, each of which "
        f"ended {ended}: most often it needs more memory than it may take ({MEMORY_SETTING})",
        attempts=tries,
        setting=MEMORY_SETTING,
    )


def _nothing(job: Job, outcome: JobOutcome, seconds: float) -> None:
    """Nobody counts."""


@dataclass(slots=True, kw_only=True)
class Worker:
    """One worker. `name` tells leases apart; `stop` ends the loop between two jobs."""

    stores: Stores
    bench: Bench
    name: str
    lease: timedelta
    longest_pause_s: float
    attempts: int = MAX_ATTEMPTS
    """How often a job is begun without coming to an end."""
    renew_spark: Callable[[], None] | None = None
    """Starts another Spark for one that is gone. None: this process is to be started anew, which
    waits for a cluster that is away before it takes jobs."""
    on_end: Callable[[Job, JobOutcome, float], None] = _nothing
    """Told of every job that ended, and how long it took in seconds."""
    stop: threading.Event = field(default_factory=threading.Event)
    secrets: Callable[[DatasetEntry], Mapping[str, str]] = lambda _: {}
    """What templates of a dataset's sources may read, beside what the administrator allows."""

    def work(self, *, once: bool = False) -> None:
        """Run jobs until asked to stop; with `once`, until none is left."""
        with self.stores.bell.listen(Topic.WORK) as bell:
            while not self.stop.is_set():
                groups = self._claim()
                if len(groups) > 1:
                    self.run_several(groups)
                elif groups:
                    self.run(groups[0])
                elif once:
                    return
                else:
                    bell.wait(self.longest_pause_s)

    def _claim(self) -> Sequence[Sequence[Job]]:
        try:
            return self.stores.jobs.claim_groups(
                self.name, KINDS, lease=self.lease, together=TOGETHER, groups=DATASETS_AT_ONCE
            )
        except Exception:  # a busy or restarting database: ask again
            LOGGER.exception("claim failed")
            self.stop.wait(1.0)
            return ()

    def run_several(self, groups: Sequence[Sequence[Job]]) -> None:
        """Run small claimed jobs of several datasets together, what cannot be one by one."""
        every = [job for group in groups for job in group]
        try:
            with held(self.stores.jobs, every, self.name, lease=self.lease) as meters:
                ended = self._run_together(groups, meters)
                for group in groups:
                    if left := [job for job in group if job.id not in ended]:
                        self.run(left)
        except EngineGone as gone:
            self._go_on_without(every, gone)

    def _run_together(
        self, groups: Sequence[Sequence[Job]], meters: Mapping[str, Meter]
    ) -> set[JobId]:
        """The jobs that came to their end together; whatever keeps others from it comes up again
        when they are run."""
        began = time.monotonic()
        every = {job.id: job for group in groups for job in group}
        ended: set[JobId] = set()
        try:
            batches = [[self._batch(job, meters) for job in group] for group in groups]
            ends = run_several(
                self.stores, self.bench, batches, worker=self.name, failure=self._failure
            )
            for end in ends:
                ended.add(end.job)
                self._log(every[end.job], end.outcome, time.monotonic() - began)
        except EngineGone:
            raise
        except Exception as error:
            LOGGER.warning(line("not run together", jobs=len(every), message=str(error)))
        return ended

    def run(self, group: Sequence[Job]) -> None:
        """Run claimed jobs of one dataset and report their outcome. Raises `EngineGone` only."""
        first = group[0]
        with (
            span(f"job {first.spec.kind}", "consumer", first.spec.trace) as trace,
            part_of(trace or first.spec.trace, dataset=str(first.spec.dataset), job=first.id),
        ):
            try:
                self._run(group)
            finally:
                self._clear()

    def _clear(self) -> None:
        """What executors were sent is needed no more; what stays is collected as abandoned."""
        try:
            exchange.clear()
        except NodeError:
            LOGGER.exception("files for executors stay behind")

    def _run(self, group: Sequence[Job]) -> None:
        try:
            self._run_held(group)
        except (Interrupted, Unavailable) as trouble:
            self._put_off(group, trouble)
        except EngineGone as gone:
            self._go_on_without(group, gone)

    def _go_on_without(self, group: Sequence[Job], gone: EngineGone) -> None:
        """Start another Spark, then have the jobs rest, so that others that need it come first;
        those that were begun often enough are given up.

        Raises `EngineGone` if there can be no other in this process.
        """
        LOGGER.error(line("Spark is gone", reason=gone))
        for job in group:
            if job.attempt >= self.attempts:
                outcome = self._failure(job, abandoned(job.attempt, f"Spark ({gone})"))
                with suppress(LeaseLost, Unavailable):
                    self.stores.jobs.finish(job.id, self.name, outcome)
                    self._log(job, outcome, 0.0)
        try:
            self._renew_spark(gone)
        finally:
            self._put_off([job for job in group if job.attempt < self.attempts], gone)

    def _renew_spark(self, gone: EngineGone) -> None:
        if self.renew_spark is None:
            raise gone
        if self.stop.is_set():
            return
        try:
            self.renew_spark()
        except ConnectionError as error:
            raise EngineGone(str(error)) from error

    def _run_held(self, group: Sequence[Job]) -> None:
        began = time.monotonic()
        with held(self.stores.jobs, group, self.name, lease=self.lease) as meters:
            ends: Iterable[JobEnd]
            if group[0].spec.kind == ingest_job.KIND:
                ends = self._ingest(group, meters)
            else:
                ends = (self._single(job, meters[job.id]) for job in group)
            for end in ends:
                job = next(job for job in group if job.id == end.job)
                self._log(job, end.outcome, time.monotonic() - began)

    def _put_off(self, group: Sequence[Job], trouble: Exception) -> None:
        """Let the jobs rest under our lease: nobody has them before it ends, then anybody.

        Those whose end was written before their worker could hear of it stay as they are.
        """
        for job in group:
            pause = FIRST_PAUSE_S * PAUSE_GROWTH ** (job.attempt - 1)
            facts = {"job": job.id, "attempt": job.attempt, "seconds": pause}
            LOGGER.warning(line("job put off", **facts, message=str(trouble)))
            with suppress(LeaseLost, Unavailable):  # the lease we have ends by itself
                self.stores.jobs.extend(job.id, self.name, lease=timedelta(seconds=pause))

    def _single(self, job: Job, meter: Meter) -> JobEnd:
        end = JobEnd(job.id, self.name, self._outcome(job, meter))
        self._finish(end)
        return end

    def _outcome(self, job: Job, meter: Meter) -> JobOutcome:
        try:
            self._check_attempts(job)
            metered = replace(self, bench=replace(self.bench, meter=meter))
            return Succeeded(HANDLERS[job.spec.kind](metered, job))
        except Exception as error:
            return self._failure(job, error)

    def _ingest(self, group: Sequence[Job], meters: Mapping[str, Meter]) -> Iterator[JobEnd]:
        """Pushed batches of one dataset."""
        batches = []
        for job in group:
            try:
                batches.append(self._batch(job, meters))
            except NodeError as error:
                end = JobEnd(job.id, self.name, self._failure(job, error))
                self._finish(end)
                yield end
        if not batches:
            return
        try:
            dataset = self.stores.dataset(DatasetRef.parse(str(batches[0].job.spec.dataset)))
            ingest = IngestGroup(
                dataset,
                self.bench,
                worker=self.name,
                finish=self._finish,
                failure=self._failure,
            )
            yield from ingest.run(batches)
        except (EngineGone, Interrupted):
            raise
        except Exception as error:  # not of one batch: the dataset is gone, or the node fails
            for batch in batches:
                outcome = self._failure(batch.job, error)
                with suppress(LeaseLost):  # of those that have ended
                    self.stores.jobs.finish(batch.job.id, self.name, outcome)
                    yield JobEnd(batch.job.id, self.name, outcome)

    def _batch(self, job: Job, meters: Mapping[str, Meter]) -> Batch:
        """Raises `JobAbandoned`, `MalformedJob`."""
        self._check_attempts(job)
        payload = self._payload(job, ingest_job.payload_of)
        return Batch(job=job, payload=payload, meter=meters[job.id])

    def _finish(self, end: JobEnd) -> None:
        try:
            self.stores.jobs.finish(end.job, end.worker, end.outcome)
        except LeaseLost:
            LOGGER.warning(line("outcome of a job that was lost", job=end.job))

    def _check_attempts(self, job: Job) -> None:
        if job.attempt > self.attempts:
            raise abandoned(job.attempt - 1, "its worker")

    def _failure(self, job: Job, error: Exception) -> Failed:
        """What a job is told about an error. Raises `EngineGone`, `Interrupted`."""
        if isinstance(error, Unavailable) and job.attempt < self.attempts:
            raise Interrupted(error.message) from error
        if isinstance(error, NodeError):
            return Failed(type(error).__name__, error.message, dict(error.facts))
        if (reason := jvm.how_it_ended()) is not None:  # which shows in errors of many kinds
            raise EngineGone(reason) from error
        if isinstance(error, Py4JNetworkError | ConnectionError):
            raise EngineGone(f"it does not answer: {error}") from error
        LOGGER.error(
            line("job failed inside", job=job.id, dataset=job.spec.dataset), exc_info=error
        )
        return Failed(INTERNAL, INTERNAL_MESSAGE)

    def _payload(self, job: Job, read: Callable[[dict[str, Any]], P]) -> P:
        """The payload of a job on a dataset. Raises `MalformedJob`."""
        kind = job.spec.kind
        if job.spec.dataset is None:
            raise MalformedJob(f"the {kind} job names no dataset")
        try:
            return read(job.spec.payload)
        except ValueError as bad:
            raise MalformedJob(f"the payload of the {kind} job cannot be read: {bad}") from None

    def _log(self, job: Job, outcome: JobOutcome, seconds: float) -> None:
        self.on_end(job, outcome, seconds)
        with part_of(job.spec.trace):
            self._say(job, outcome, seconds)

    def _say(self, job: Job, outcome: JobOutcome, seconds: float) -> None:
        facts = {"job": job.id, "dataset": job.spec.dataset, "seconds": seconds}
        if isinstance(outcome, Succeeded):
            result = {key: outcome.result.get(key) for key in ("outcome", "rowsAdded", "head")}
            LOGGER.info(line("job done", **facts, **result))
        else:
            LOGGER.warning(
                line("job failed", **facts, error=outcome.error, message=outcome.message)
            )

    def poll(self, job: Job) -> dict[str, Any]:
        """Fetches of a polling source; the job's submission is the time of all its blocks."""
        dataset, payload = self._subject(job, poll_job.payload_of)
        self.bench.meter.phase("fetch")
        variables = {**self.bench.fetch.variables, **self.secrets(dataset.entry)}
        fetch = replace(self.bench.fetch, variables=variables)
        receipt = run_poll(
            dataset,
            payload,
            replace(self.bench, fetch=fetch),
            now=job.submitted_at,
            repeated=job.attempt > 1,
        )
        return poll_job.to_json(receipt)

    def compact(self, job: Job) -> dict[str, Any]:
        """Slices of a root become fewer; a repeated job finds nothing left to do."""
        dataset, payload = self._subject(job, compact_job.payload_of)
        receipt = run_compaction(
            dataset,
            payload,
            self.stores,
            self.bench.scratch,
            attempts=self.bench.commit_attempts,
        )
        return history_receipt.to_json(receipt)

    def verify(self, job: Job) -> dict[str, Any]:
        """Everything looked at, executions made again; or pushed blocks let in."""
        dataset, payload = self._subject(job, verify_job.payload_of)
        run = run_candidate if payload.candidate is not None else run_verification
        answer = run(self.stores, dataset, payload, self.bench, now=now())
        return verify_job.to_json(answer)

    def transform(self, job: Job) -> dict[str, Any]:
        """What the inputs of a derivative have that is new. A job that takes long leaves the
        rest to another one, behind those of other datasets."""
        dataset, payload = self._subject(job, transform_job.payload_of)
        receipt = run_transform(
            self.stores,
            dataset,
            payload,
            self.bench,
            now=job.submitted_at,
            repeated=job.attempt > 1,
        )
        if receipt.has_more:
            self.stores.jobs.submit(transform_job.job_of(dataset.id, payload))
        return transform_job.to_json(receipt)

    def check(self, job: Job) -> dict[str, Any]:
        """What a transform would give; nothing is committed."""
        try:
            payload = transform_job.check_of(job.spec.payload)
        except ValueError as bad:
            raise MalformedJob(f"the payload of the check job cannot be read: {bad}") from None
        receipt = run_check(self.stores, payload, self.bench, now=job.submitted_at)
        return transform_job.to_json(receipt)

    def _subject(self, job: Job, read: Callable[[dict[str, Any]], P]) -> tuple[Dataset, P]:
        """What a job is about, and its payload. Raises `MalformedJob`."""
        payload = self._payload(job, read)
        return self.stores.dataset(DatasetRef.parse(str(job.spec.dataset))), payload


HANDLERS: Mapping[str, Callable[[Worker, Job], dict[str, Any]]] = {
    poll_job.KIND: Worker.poll,
    compact_job.KIND: Worker.compact,
    verify_job.KIND: Worker.verify,
    transform_job.KIND: Worker.transform,
    transform_job.CHECK: Worker.check,
}
"""What a worker does, by kind of job; pushed batches, which it runs in groups, aside."""
KINDS = (ingest_job.KIND, *HANDLERS)


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
