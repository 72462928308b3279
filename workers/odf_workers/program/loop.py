"""The worker's loop: claim, run, finish, repeat; and how it starts and ends.

An error of a job becomes the job's outcome, and the worker continues. It ends after the current job
when it is asked to, or when its parent is gone. When its Spark is gone, the job pauses and other
jobs run with a new Spark; a job that ends Spark again and again is given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from py4j.protocol import Py4JNetworkError

from odf_protocol.errors import Damaged, NodeError, NodeFault, Unavailable
from odf_protocol.metadata.events import SetPollingSource
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.datasets.job_payloads import ingest_job, query_job, why_job
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.features import installed
from odf_storage.runtime.logs import part_of, span
from odf_storage.stores.ports.errors import LeaseLost
from odf_storage.stores.ports.values import DatasetEntry, Failed, Job, JobEnd, JobOutcome, Succeeded
from odf_storage.stores.wakeups.wakeups import Topic

from ..engines.exchange import worker_side as exchange
from ..engines.spark import jvm
from ..jobs.ingest.claim import PostRun
from ..jobs.ingest.round import IngestTask
from ..jobs.work.budget import Budget, LeaseKeeper, LeaseWatch
from ..jobs.work.context import StagesRan, WorkerContext
from ..partitions.messages import StageFailed
from ..runtime.command import LOGGER, line
from ..runtime.progress import JobProgress
from ..settings import Jobs
from .handlers import HANDLERS, JobContext, handler_of_feature, payload_of

KINDS = (ingest_job.KIND, *HANDLERS, *(kind for each in installed() for kind in each.jobs))
OF_READERS = (query_job.KIND, why_job.KIND)
"""Kinds of jobs that readers ask for."""
KINDS_OF: Mapping[Jobs, Sequence[str]] = {
    "all": KINDS,
    "queries": OF_READERS,
    "others": tuple(kind for kind in KINDS if kind not in OF_READERS),
}
"""Kinds of jobs by the setting `jobs`."""
GROUP_SIZES = {ingest_job.KIND: 128}
"""Largest number of jobs of one dataset that are claimed together, by kind."""
DATASETS_AT_ONCE = 16
"""Number of datasets whose small posts are claimed together. The service answers these posts while
the worker processes the next ones; if all waiting posts were claimed together, each would wait for
all others."""
MAX_ATTEMPTS, MAX_DEATHS = 5, 3
"""Defaults of settings: a job is given up after it found a part of the node unavailable so often,
or ended so many workers or Sparks."""
FIRST_PAUSE_S, PAUSE_GROWTH = 2.0, 4
"""Seconds that a job pauses whose database, object store or Spark was unavailable, and the factor
by which the pause grows each time; other jobs run meanwhile."""
MEMORY_SETTING = "ODF_WORKER_SPARK_DRIVER_MEMORY"
OF_THE_NODE = frozenset(kind.__name__ for kind in (Unavailable, Damaged, NodeFault))
"""Branches of errors whose messages are about the node alone."""
WHERE = ("line", "limit", "setting")
"""Facts of an error that are no part of what was sent."""
INTERNAL = "Internal"
INTERNAL_MESSAGE = "the job failed for a reason inside of the node; its log says more"


class Interrupted(Exception):
    """The database or the object store is unavailable: the job begins again after a pause."""


class EngineGone(Exception):
    """Spark is gone; the message is the reason, for people."""


def abandoned(tries: int, ended: str) -> NodeFault:
    return NodeFault(
        "JobAbandoned",
        f"the job was given up after {tries} {'try' if tries == 1 else 'tries'}, each of which "
        f"ended {ended}: most often it needs more memory than it may take ({MEMORY_SETTING})",
        attempts=tries,
        setting=MEMORY_SETTING,
        retryable=False,
    )


def _nothing(job: Job, outcome: JobOutcome, seconds: float) -> None:
    """Ignore an ended job."""


def _no_stages(kind: str, ran: StagesRan) -> None:
    """Ignore a run of stages."""


def _reason(failed: Failed) -> Mapping[str, Any]:
    """Return what the log may say: a message about what somebody sent has values or queries in
    it, which are for its sender, so of these it is where and which limit."""
    if failed.branch in OF_THE_NODE or failed.error == INTERNAL:
        return {"message": failed.message}
    return {name: failed.facts.get(name) for name in WHERE}


@dataclass(slots=True, kw_only=True)
class Worker:
    """One worker. `name` identifies its leases; `stop` ends the loop between two jobs."""

    stores: Stores
    context: WorkerContext
    name: str
    lease: timedelta
    longest_pause_s: float = 1.0
    kinds: Sequence[str] = KINDS
    """Kinds of the jobs that it takes."""
    idle_s: float = 0.0
    """Seconds without a job after which the loop ends; 0 means never."""
    attempts: int = MAX_ATTEMPTS
    """Number of times that a job may begin without reaching an end."""
    deaths: int = MAX_DEATHS
    """Number of workers or Sparks that a job may end."""
    budget: Budget = field(default_factory=Budget)
    stuck_s: float = 0.0
    """Seconds after which the process ends if no thread gets to run; 0 means never."""
    renew_spark: Callable[[], None] | None = None
    """Starts a new Spark when the old one is gone. None means that the process has to be started
    again; the new process waits for an unavailable cluster before it claims jobs."""
    on_end: Callable[[Job, JobOutcome, float], None] = _nothing
    """Called for every ended job, with its duration in seconds."""
    on_stages: Callable[[str, StagesRan], None] = _no_stages
    """Called for every run of stages, with the kind of its job."""
    stop: threading.Event = field(default_factory=threading.Event)
    secrets: Callable[[DatasetEntry, SetPollingSource], Mapping[str, str]] = lambda *_: {}
    """Returns the variables that templates of a source may read, beside those that the
    administrator allows."""
    _leases: LeaseKeeper = field(init=False)

    def __post_init__(self) -> None:
        watching = LeaseWatch(self.budget, self.stuck_s)
        self._leases = LeaseKeeper(self.stores.jobs, self.name, lease=self.lease, watching=watching)

    def work(self, *, once: bool = False) -> None:
        """Run jobs until asked to stop; with `once`, until no job is left; else until it was idle
        for its time."""
        worked = time.monotonic()
        with self.stores.wake_up.listen(Topic.WORK) as wake_up:
            while not self.stop.is_set():
                if groups := self._claim():
                    self.run(groups)
                    worked = time.monotonic()
                elif once or 0 < self.idle_s < time.monotonic() - worked:
                    return
                else:
                    wake_up.wait(self.longest_pause_s)
                if groups and not self.budget.has_room():
                    LOGGER.warning(line("worker ends: it keeps the memory of its jobs"))
                    self.stop.set()

    def _claim(self) -> Sequence[Sequence[Job]]:
        try:
            return self.stores.jobs.claim_groups(
                self.name,
                self.kinds,
                lease=self.lease,
                group_sizes=GROUP_SIZES,
                groups=DATASETS_AT_ONCE,
            )
        except Exception:  # a busy or restarting database: try again
            LOGGER.exception("claim failed")
            self.stop.wait(1.0)
            return ()

    def run(self, groups: Sequence[Sequence[Job]]) -> None:
        """Run claimed jobs, a group for each dataset, and report their outcomes. Raises only
        `EngineGone`."""
        self.stores.hashed.clear()  # file times do not show bit rot, so each job hashes again
        jobs = [job for group in groups for job in group]
        exchange.begin(jobs[0].id, [job.id for job in jobs if job.attempt > 1])
        with part_of(jobs[0].spec.trace):
            try:
                self._run(groups, jobs)
            finally:
                self._clear()
                if jvm.was_ended():  # by this worker; the next job may be another user's
                    self._renew_spark(EngineGone(str(jvm.how_it_ended())))

    def end(self) -> None:
        """Remove all files that are kept for Spark, before the worker ends."""
        self._remove_lent(exchange.close)

    def _clear(self) -> None:
        """Remove the files lent to Spark, which are no longer needed."""
        jvm.clear()
        self._remove_lent(exchange.clear)

    def _remove_lent(self, remove: Callable[[], None]) -> None:
        """If the bucket fails, the rest of the files is later collected as abandoned."""
        try:
            remove()
        except NodeError:
            LOGGER.exception("files for executors stay behind")

    def _run(self, groups: Sequence[Sequence[Job]], jobs: Sequence[Job]) -> None:
        try:
            self._run_held(groups, jobs)
        except (Interrupted, Unavailable) as trouble:
            self._put_off(jobs, trouble)
        except EngineGone as gone:
            self._go_on_without(jobs, gone)

    def _go_on_without(self, group: Sequence[Job], gone: EngineGone) -> None:
        """Start a new Spark, then pause the jobs, so that other jobs that need Spark run first.
        Jobs that have begun too often are given up.

        Raises `EngineGone` if this process cannot start another Spark.
        """
        LOGGER.error(line("Spark is gone", reason=gone))
        for job in group:
            if self._is_last(job):
                outcome = self._failure(job, abandoned(job.attempt, f"Spark ({gone})"))
                with suppress(LeaseLost, Unavailable):
                    self.stores.jobs.finish(job.id, self.name, outcome)
                    self._log(job, outcome, 0.0)
        try:
            self._renew_spark(gone)
        finally:
            self._put_off([job for job in group if not self._is_last(job)], gone)

    def _is_last(self, job: Job) -> bool:
        """Whether a job whose Spark is gone must not begin again."""
        return job.attempt >= self.attempts or job.deaths + 1 >= self.deaths

    def _renew_spark(self, gone: EngineGone) -> None:
        if self.renew_spark is None:
            raise gone
        if self.stop.is_set():
            return
        try:
            self.renew_spark()
        except ConnectionError as error:
            raise EngineGone(str(error)) from error

    def _run_held(self, groups: Sequence[Sequence[Job]], jobs: Sequence[Job]) -> None:
        began = time.monotonic()
        claimed = {job.id: job for job in jobs}
        with self._leases.held(jobs) as meters:
            ends: Iterable[JobEnd]
            if jobs[0].spec.kind == ingest_job.KIND:
                ends = self._ingest(groups, meters)
            else:
                ends = (self._single(job, meters[job.id]) for job in jobs)
            for end in ends:
                self._log(claimed[end.job], end.outcome, time.monotonic() - began)

    def _give_back(self, job: Job) -> None:
        with suppress(LeaseLost, Unavailable):  # our lease runs out by itself
            self.stores.jobs.put_back(job.id, self.name)

    def _put_off(self, group: Sequence[Job], trouble: Exception) -> None:
        """Pause the jobs: no worker can claim them for some time, then any worker can.

        Jobs whose end was already written stay as they are. Jobs that ended their Spark pause under
        our lease, so that they count as if they had ended this worker.
        """
        for job in group:
            pause = FIRST_PAUSE_S * PAUSE_GROWTH ** (job.attempt - 1)
            facts = {"job": job.id, "attempt": job.attempt, "seconds": pause}
            LOGGER.warning(line("job put off", **facts, message=str(trouble)))
            with suppress(LeaseLost, Unavailable):  # our lease runs out by itself
                if isinstance(trouble, EngineGone):
                    self.stores.jobs.extend(job.id, self.name, lease=timedelta(seconds=pause))
                else:
                    self.stores.jobs.put_back(job.id, self.name, pause=timedelta(seconds=pause))

    def _single(self, job: Job, job_progress: JobProgress) -> JobEnd:
        with (
            span(f"job {job.spec.kind}", "consumer", job.spec.trace) as trace,
            part_of(trace or job.spec.trace, dataset=str(job.spec.dataset), job=job.id),
        ):
            end = JobEnd(job.id, self.name, self._outcome(job, job_progress))
            self._finish(end)
            return end

    def _outcome(self, job: Job, job_progress: JobProgress) -> JobOutcome:
        try:
            self._check_attempts(job)
            job_progress.begin()
            context = JobContext(
                stores=self.stores,
                worker=replace(self._context_of(job.spec.kind), job_progress=job_progress),
                secrets=self.secrets,
            )
            handle = HANDLERS.get(job.spec.kind) or handler_of_feature(job.spec.kind)
            return Succeeded(handle(context, job))
        except Exception as error:
            return self._failure(job, error)

    def _context_of(self, kind: str) -> WorkerContext:
        return replace(self.context, on_stages=partial(self.on_stages, kind))

    def _ingest(
        self, groups: Sequence[Sequence[Job]], meters: Mapping[str, JobProgress]
    ) -> Iterator[JobEnd]:
        """Run posts, a group for each dataset; yield their ends."""
        posts: list[list[IngestTask]] = []
        for group in groups:
            posts.append([])
            for job in group:
                try:
                    posts[-1].append(self._post(job, meters))
                except NodeError as error:
                    end = JobEnd(job.id, self.name, self._failure(job, error))
                    self._finish(end)
                    yield end
        run = PostRun(
            self.stores,
            self._context_of(ingest_job.KIND),
            worker=self.name,
            failure=self._failure,
            give_back=self._give_back,
            is_over=self.stop.is_set,
        )
        try:
            yield from run.run(posts)
        except (EngineGone, Interrupted):
            raise
        except Exception as error:  # the error concerns the node, not one dataset
            for post in (post for group in posts for post in group):
                outcome = self._failure(post.job, error)
                with suppress(LeaseLost):  # the job has already ended
                    self.stores.jobs.finish(post.job.id, self.name, outcome)
                    yield JobEnd(post.job.id, self.name, outcome)

    def _post(self, job: Job, meters: Mapping[str, JobProgress]) -> IngestTask:
        """Prepare the post of a job. Raises `JobAbandoned`, `MalformedJob`, `HashMismatch`."""
        self._check_attempts(job)
        payload = payload_of(job, ingest_job.payload_of)
        body = job.spec.body
        if body is not None and str(found := Multihash.of(body)) != payload.upload:
            raise HashMismatch(Multihash.parse(payload.upload), found)
        return IngestTask(job=job, payload=payload, job_progress=meters[job.id])

    def _finish(self, end: JobEnd) -> None:
        try:
            self.stores.jobs.finish(end.job, end.worker, end.outcome)
        except LeaseLost:
            LOGGER.warning(line("outcome of a job that was lost", job=end.job))

    def _check_attempts(self, job: Job) -> None:
        if job.attempt > self.attempts or job.deaths >= self.deaths:
            raise abandoned(job.attempt - 1, "its worker")

    def _failure(self, job: Job, error: Exception) -> Failed:
        """Return the outcome of a job for an error. Raises `EngineGone`, `Interrupted`."""
        error = exchange.failed(error) or error
        may_be_gone = isinstance(error, StageFailed) or not isinstance(error, NodeError)
        if may_be_gone and (reason := jvm.how_it_ended()) is not None:
            raise EngineGone(reason) from error
        if isinstance(error, Unavailable) and job.attempt < self.attempts:
            raise Interrupted(error.message) from error
        if isinstance(error, NodeError):
            return Failed.of(error)
        if isinstance(error, Py4JNetworkError | ConnectionError):
            raise EngineGone(f"it does not answer: {error}") from error
        LOGGER.error(
            line("job failed inside", job=job.id, dataset=job.spec.dataset), exc_info=error
        )
        return Failed(INTERNAL, INTERNAL_MESSAGE)

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
            LOGGER.warning(line("job failed", **facts, error=outcome.error, **_reason(outcome)))
