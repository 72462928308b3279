"""Waiting for jobs: at every wake-up, one query of the queue serves all waiting coroutines.

If wake-ups are not available, or one is lost, the query runs at intervals.

Responses that wait for a job: its receipt if it ends in time, else 202 with the job's URL.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import Conflict
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.values import Failed, Job, JobId, JobStatus, Succeeded
from odf_storage.stores.wakeups.wakeups import Topic, WakeUp

from ..http.answers import JsonAnswer, error_answer, failed_answer
from ..http.deps import wired

if TYPE_CHECKING:
    from collections.abc import Iterator


T = TypeVar("T")
FINISHED = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})
STOP_S = 2.0
SOON_S = 0.05
"""Seconds after which a new waiter triggers a query. Usually a wake-up triggers one earlier."""
LONGEST_REST_S = 0.1
"""Limit in seconds of the rest after a query. The rest is as long as the query took, so that
queries take at most half of the time."""
_log = logging.getLogger("odf.node")


class JobWatch:
    """Waits for jobs in one event loop, from `start` to `stop`."""

    def __init__(self, jobs: JobQueue, wake_up: WakeUp, *, pause_s: float) -> None:
        self._jobs, self._wake_up, self._pause_s = jobs, wake_up, pause_s
        self._watchers: dict[JobId, set[asyncio.Queue[Job]]] = {}
        self._patient: dict[JobId, set[asyncio.Future[Job]]] = {}
        """Waiters for the end of a job only. Most waiters do that; of their jobs only the ended
        ones are read."""
        self._wake, self._is_due = asyncio.Event(), False
        self._stopping = threading.Event()
        self._looking: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the queries. Call it in the event loop."""
        loop = asyncio.get_running_loop()
        self._looking = loop.create_task(self._look())
        self._thread = threading.Thread(
            target=self._listen, args=(loop,), name="job-watch", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        self._stopping.set()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        if self._thread is not None:
            self._wake_up.send(Topic.ENDED)
            await run_in_threadpool(self._thread.join, min(STOP_S, self._pause_s))

    async def ended(self, job: JobId, patience_s: float | None) -> Job | None:
        """Wait until the job has ended, and return it; return None when patience ends first.
        Without `patience_s`, wait for ever."""
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._patient.setdefault(job, set()).add(end)
        self._wake_soon()
        try:
            async with asyncio.timeout(patience_s):
                return await end
        except TimeoutError:
            return None
        finally:
            _drop(self._patient, job, end)

    async def changes(self, job: JobId) -> AsyncGenerator[Job]:
        """Yield the job as it is, and again after every change, until it has ended."""
        last: Job | None = None
        with self._watching(job) as seen:
            while last is None or last.status not in FINISHED:
                now = await seen.get()
                if last is None or _shown(now) != _shown(last):
                    yield now
                last = now

    @contextmanager
    def _watching(self, job: JobId) -> Iterator[asyncio.Queue[Job]]:
        seen: asyncio.Queue[Job] = asyncio.Queue(maxsize=1)
        self._watchers.setdefault(job, set()).add(seen)
        self._wake.set()
        try:
            yield seen
        finally:
            _drop(self._watchers, job, seen)

    def _wake_soon(self) -> None:
        """Trigger a query soon, for a job that ended before the wait began. Other new waiters
        share the query."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(SOON_S, self._wake.set)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._wake_up.listen(Topic.ENDED) as listener:
            while not self._stopping.is_set():
                listener.wait(self._pause_s)
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._wake.set)

    async def _look(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._is_due = False
            if not self._watchers and not self._patient:
                continue
            began = time.monotonic()
            try:
                found = await run_in_threadpool(
                    self._found, list(self._watchers), list(self._patient)
                )
            except Exception:  # the database may be busy or restarting: retry later
                _log.exception("jobs were not looked at")
                continue
            for job in found:
                self._tell(job)
            await asyncio.sleep(min(LONGEST_REST_S, time.monotonic() - began))

    def _found(self, watched: list[JobId], awaited: list[JobId]) -> list[Job]:
        ends = self._jobs.get_all(awaited, ended=True)
        return [*self._jobs.get_all(watched).values(), *ends.values()]

    def _tell(self, job: Job) -> None:
        for seen in self._watchers.get(job.id, ()):
            if seen.full():  # a slow watcher gets only the newest state
                seen.get_nowait()
            seen.put_nowait(job)
        for end in self._patient.get(job.id, ()) if job.status in FINISHED else ():
            if not end.done():
                end.set_result(job)


def _drop(table: dict[JobId, set[T]], job: JobId, waiting: T) -> None:
    """Remove a waiter."""
    table[job].discard(waiting)
    if not table[job]:
        del table[job]


def _shown(job: Job) -> tuple[object, ...]:
    """Return the properties of a job whose changes a watcher gets."""
    return job.status, job.attempt, job.progress


_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,9})")


@dataclass(frozen=True)
class Waiting:
    """The watch by which requests wait for jobs, and the limit of the wait in seconds."""

    watch: JobWatch
    most_s: float


WaitingDep = Annotated[Waiting, Depends(wired(Waiting))]


def asked_wait(prefer: str) -> float | None:
    """Return the seconds in `wait=SECONDS` of a `Prefer` header, None without it."""
    asked = _WAIT.search(prefer)
    return None if asked is None else float(asked[1])


def patience_of(prefer: str, most_s: float) -> float:
    """Return the seconds to wait, by the `Prefer` header (RFC 7240): `respond-async`,
    `wait=SECONDS`. The limit is `most_s`."""
    asked = asked_wait(prefer)
    if asked is not None:
        return min(asked, most_s)
    return 0.0 if "respond-async" in prefer.lower() else most_s


async def job_answer(waiting: Waiting, job: JobId, base: str, prefer: str) -> Response:
    """Wait for the job and return its receipt, or 202 when the time of the caller or the node is
    over."""
    ended = await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    return accepted(job, base) if ended is None else receipt_answer(ended)


def accepted(job: JobId, base: str) -> Response:
    """Return 202 with the URL of the job."""
    url = f"{base}jobs/{job}"
    shown = {"job": job, "status": "waiting", "url": url, "events": f"{url}/events"}
    return JsonAnswer(shown, 202, {"location": url})


def receipt_answer(job: Job) -> Response:
    """Return the response for a job that has ended: its receipt or its error."""
    match job.outcome:
        case Succeeded(result=receipt):
            return JsonAnswer(receipt)
        case Failed() as failed:
            return failed_answer(failed)
        case None:
            return error_answer(Conflict("JobCancelled", "the job was cancelled"))
