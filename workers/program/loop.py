"""The worker's loop: claim, run, finish, again; and how it starts and ends.

Whatever a job does wrong is an outcome of the job; the worker goes on. It ends when it is
asked to, or when its parent is gone, after the job at hand. When its Spark is gone, the job rests,
and others are run with another Spark; a job that ends it again and again is given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from py4j.protocol import Py4JNetworkError

from odf_node.protocol.errors import NodeError, NodeFault, Unavailable
from odf_node.protocol.metadata.events import SetPollingSource
from odf_node.protocol.multihash import HashMismatch, Multihash
from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.runtime.context import part_of
from odf_node.storage.runtime.tracing import span
from odf_node.storage.stores.ports.errors import LeaseLost
from odf_node.storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    Job,
    JobEnd,
    JobOutcome,
    Succeeded,
)
from odf_node.storage.stores.wakeups.port import Topic

from ..engines.exchange import worker_side as exchange
from ..engines.spark import jvm
from ..engines.spark import visible_files as shown
from ..jobs.ingest.claim import PostRun
from ..jobs.ingest.post import Post
from ..jobs.work.budget import Budget, Watching
from ..jobs.work.context import WorkerContext
from ..jobs.work.lease import held
from ..runtime.log import LOGGER, line
from ..runtime.progress import JobProgress
from .handlers import HANDLERS, JobContext, payload_of

KINDS = (ingest_job.KIND, *HANDLERS)
GROUP_SIZES = {ingest_job.KIND: 128}
"""Jobs of one dataset that are claimed at once, by kind."""
DATASETS_AT_ONCE = 16
"""Datasets whose small posts are claimed at once. The service answers those while the worker is
at others that wait; were all of them claimed at once, each would wait for the other's part."""
MAX_ATTEMPTS, MAX_DEATHS = 5, 3
"""Unless a setting says so: a job that as often met a part of the node that was away, or that took
down so many workers or Sparks, is given up."""
FIRST_PAUSE_S, PAUSE_GROWTH = 2.0, 4
"""How long a job rests whose database, object store or Spark was away, and how much longer each
time: others are run meanwhile."""
MEMORY_SETTING = "ODF_WORKER_SPARK_DRIVER_MEMORY"
INTERNAL = "Internal"
INTERNAL_MESSAGE = "the job failed for a reason inside of the node; its log says more"


class JobAbandoned(NodeFault):
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
        retryable=False,
    )


def _nothing(job: Job, outcome: JobOutcome, seconds: float) -> None:
    """Nobody counts."""


@dataclass(slots=True, kw_only=True)
class Worker:
    """One worker. `name` tells leases apart; `stop` ends the loop between two jobs."""

    stores: Stores
    context: WorkerContext
    name: str
    lease: timedelta
    longest_pause_s: float
    attempts: int = MAX_ATTEMPTS
    """How often a job is begun without coming to an end."""
    deaths: int = MAX_DEATHS
    """How many workers or Sparks a job may end."""
    budget: Budget = field(default_factory=Budget)
    stuck_s: float = 0.0
    """Seconds after which the process ends if no thread gets to run; 0: never."""
    renew_spark: Callable[[], None] | None = None
    """Starts another Spark for one that is gone. None: this process is to be started anew, which
    waits for a cluster that is away before it takes jobs."""
    on_end: Callable[[Job, JobOutcome, float], None] = _nothing
    """Told of every job that ended, and how long it took in seconds."""
    stop: threading.Event = field(default_factory=threading.Event)
    secrets: Callable[[DatasetEntry, SetPollingSource], Mapping[str, str]] = lambda *_: {}
    """What templates of a source may read, beside what the administrator allows."""

    def work(self, *, once: bool = False) -> None:
        """Run jobs until asked to stop; with `once`, until none is left."""
        with self.stores.wake_up.listen(Topic.WORK) as wake_up:
            while not self.stop.is_set():
                if groups := self._claim():
                    self.run(groups)
                elif once:
                    return
                else:
                    wake_up.wait(self.longest_pause_s)
                if groups and not self.budget.has_room():
                    LOGGER.warning(line("worker ends: it keeps the memory of its jobs"))
                    self.stop.set()

    def _claim(self) -> Sequence[Sequence[Job]]:
        try:
            return self.stores.jobs.claim_groups(
                self.name, KINDS, lease=self.lease, group_sizes=GROUP_SIZES, groups=DATASETS_AT_ONCE
            )
        except Exception:  # a busy or restarting database: ask again
            LOGGER.exception("claim failed")
            self.stop.wait(1.0)
            return ()

    def run(self, groups: Sequence[Sequence[Job]]) -> None:
        """Run claimed jobs, a group for each dataset, and report their outcome. Raises
        `EngineGone` only."""
        self.stores.hashed.clear()  # rot shows in no time of a file: each job hashes for itself
        with part_of(groups[0][0].spec.trace):
            try:
                self._run(groups)
            finally:
                self._clear()
                if jvm.was_ended():  # its query did not end; the next one is of somebody else
                    self._renew_spark(EngineGone("it was ended with a query that did not end"))

    def _clear(self) -> None:
        """What Spark was shown and sent is needed no more; what stays is collected as abandoned."""
        shown.clear()
        try:
            exchange.clear()
        except NodeError:
            LOGGER.exception("files for executors stay behind")

    def _run(self, groups: Sequence[Sequence[Job]]) -> None:
        jobs = [job for group in groups for job in group]
        try:
            self._run_held(groups, jobs)
        except (Interrupted, Unavailable) as trouble:
            self._put_off(jobs, trouble)
        except EngineGone as gone:
            self._go_on_without(jobs, gone)

    def _go_on_without(self, group: Sequence[Job], gone: EngineGone) -> None:
        """Start another Spark, then have the jobs rest, so that others that need it come first;
        those that were begun often enough are given up.

        Raises `EngineGone` if there can be no other in this process.
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
        """Whether a job whose Spark has gone is not begun again."""
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
        with self._held(jobs) as meters:
            ends: Iterable[JobEnd]
            if jobs[0].spec.kind == ingest_job.KIND:
                ends = self._ingest(groups, meters)
            else:
                ends = (self._single(job, meters[job.id]) for job in jobs)
            for end in ends:
                self._log(claimed[end.job], end.outcome, time.monotonic() - began)

    def _held(self, group: Sequence[Job]) -> AbstractContextManager[dict[str, JobProgress]]:
        return held(
            self.stores.jobs,
            group,
            self.name,
            lease=self.lease,
            watching=Watching(self.budget, self.stuck_s),
        )

    def _give_back(self, job: Job) -> None:
        with suppress(LeaseLost, Unavailable):  # the lease we have ends by itself
            self.stores.jobs.put_back(job.id, self.name)

    def _put_off(self, group: Sequence[Job], trouble: Exception) -> None:
        """Let the jobs rest: nobody has them for some time, then anybody.

        Those whose end was written before their worker could hear of it stay as they are. Those
        that ended their Spark rest under our lease, which counts as if they had ended us.
        """
        for job in group:
            pause = FIRST_PAUSE_S * PAUSE_GROWTH ** (job.attempt - 1)
            facts = {"job": job.id, "attempt": job.attempt, "seconds": pause}
            LOGGER.warning(line("job put off", **facts, message=str(trouble)))
            with suppress(LeaseLost, Unavailable):  # the lease we have ends by itself
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
                worker=replace(self.context, job_progress=job_progress),
                secrets=self.secrets,
            )
            return Succeeded(HANDLERS[job.spec.kind](context, job))
        except Exception as error:
            return self._failure(job, error)

    def _ingest(
        self, groups: Sequence[Sequence[Job]], meters: Mapping[str, JobProgress]
    ) -> Iterator[JobEnd]:
        """Posts, a group for each dataset."""
        posts: list[list[Post]] = []
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
            self.context,
            worker=self.name,
            failure=self._failure,
            give_back=self._give_back,
            is_over=self.stop.is_set,
        )
        try:
            yield from run.run(posts)
        except (EngineGone, Interrupted):
            raise
        except Exception as error:  # not of one dataset: the node fails
            for post in (post for group in posts for post in group):
                outcome = self._failure(post.job, error)
                with suppress(LeaseLost):  # of those that have ended
                    self.stores.jobs.finish(post.job.id, self.name, outcome)
                    yield JobEnd(post.job.id, self.name, outcome)

    def _post(self, job: Job, meters: Mapping[str, JobProgress]) -> Post:
        """Raises `JobAbandoned`, `MalformedJob`, `HashMismatch`."""
        self._check_attempts(job)
        payload = payload_of(job, ingest_job.payload_of)
        body = job.spec.body
        if body is not None and str(found := Multihash.of(body)) != payload.upload:
            raise HashMismatch(Multihash.parse(payload.upload), found)
        return Post(job=job, payload=payload, job_progress=meters[job.id])

    def _finish(self, end: JobEnd) -> None:
        try:
            self.stores.jobs.finish(end.job, end.worker, end.outcome)
        except LeaseLost:
            LOGGER.warning(line("outcome of a job that was lost", job=end.job))

    def _check_attempts(self, job: Job) -> None:
        if job.attempt > self.attempts or job.deaths >= self.deaths:
            raise abandoned(job.attempt - 1, "its worker")

    def _failure(self, job: Job, error: Exception) -> Failed:
        """What a job is told about an error. Raises `EngineGone`, `Interrupted`."""
        error = exchange.failed(error) or error
        if isinstance(error, Unavailable) and job.attempt < self.attempts:
            raise Interrupted(error.message) from error
        if isinstance(error, NodeError):
            return Failed.of(error)
        if (reason := jvm.how_it_ended()) is not None:  # which shows in errors of many kinds
            raise EngineGone(reason) from error
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
            LOGGER.warning(
                line("job failed", **facts, error=outcome.error, message=outcome.message)
            )
