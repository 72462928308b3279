"""Waiting for jobs: one look at the queue for all who wait, whenever the bell rings.

Without a bell, or should it be lost, the look comes by itself after a pause.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from storage.bells.port import Bell, Topic
from storage.ports import JobQueue
from storage.values import Job, JobId, JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

FINISHED = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})
STOP_S = 2.0
_log = logging.getLogger("odf.node")


class JobWatch:
    """Of one event loop, from `start` to `stop`."""

    def __init__(self, jobs: JobQueue, bell: Bell, *, pause_s: float) -> None:
        self._jobs, self._bell, self._pause_s = jobs, bell, pause_s
        self._watchers: dict[JobId, set[asyncio.Queue[Job]]] = {}
        self._wake = asyncio.Event()
        self._stopping = threading.Event()
        self._looking: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look; to be called in the event loop."""
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
            self._bell.ring(Topic.ENDED)
            await run_in_threadpool(self._thread.join, min(STOP_S, self._pause_s))

    async def ended(self, job: JobId, patience_s: float | None) -> Job | None:
        """The job once it has ended, None when patience ends first; None waits for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                async for seen in self.changes(job):
                    if seen.status in FINISHED:
                        return seen
        return None

    async def changes(self, job: JobId) -> AsyncGenerator[Job]:
        """The job now, and again whenever it got further; the last one has ended."""
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
            self._watchers[job].discard(seen)
            if not self._watchers[job]:
                del self._watchers[job]

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._bell.listen(Topic.ENDED) as listener:
            while not self._stopping.is_set():
                listener.wait(self._pause_s)
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._wake.set)

    async def _look(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted = list(self._watchers)
            if not wanted:
                continue
            try:
                found = await run_in_threadpool(self._jobs.get_all, wanted)
            except Exception:  # a busy or restarting database: the next look may get through
                _log.exception("jobs were not looked at")
                continue
            for job in found.values():
                for seen in self._watchers.get(job.id, ()):
                    if seen.full():  # a slow watcher is told the newest only
                        seen.get_nowait()
                    seen.put_nowait(job)


def _shown(job: Job) -> tuple[object, ...]:
    """What a watcher is told about."""
    return job.status, job.attempt, job.progress
