"""Supervise worker processes: start them by command line, restart them, end them.

The service knows only the command line of a worker. A worker that dies is restarted after a
pause, which grows if it dies again. At the end a worker gets a signal, some time, then a kill.
Queries of readers have workers of their own, so that they hold back no post; these live only while
there are such queries.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from odf_protocol.errors import Unavailable
from odf_storage.datasets.job_payloads import query_job, why_job
from odf_storage.runtime.extras import need
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.values import JobStatus

from ..settings import Settings

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
DEATHS = 3
"""Number of starts in a row that fail soon after which workers are said not to start."""
SETTLED_S = 60.0
"""Seconds of life after which a worker's pause is the shortest one again."""
QUERIES_IDLE_S = 300.0
"""Seconds without a query of a reader after which the worker for these ends."""
LOOK_S = 1.0
"""Seconds between two looks whether a worker is needed."""
OPEN = (JobStatus.WAITING, JobStatus.RUNNING)

_log = logging.getLogger("odf.node")


def worker_command(settings: Settings, *, jobs: str | None = None) -> list[str]:
    """Return the command line of a worker. A worker ends by itself when this process has ended; it
    imports no modules from the current folder (`-P`).

    Raises:
        ExtraMissing: workers are wanted, and Spark is not installed.
    """
    if settings.workers:
        need("pyspark", "workers need Spark (serve --workers 0 starts none)")
    command = [
        sys.executable,
        "-P",
        "-m",
        "odf_workers.main",
        "--data",
        str(settings.data.resolve()),
    ]
    if settings.database_url is not None:
        command += ["--database-url", settings.database_url]
    if settings.objects_url is not None:
        command += ["--objects-url", settings.objects_url]
    jobs = jobs or ("others" if settings.query_workers else "all")
    return [*command, "--parent-pid", str(os.getpid()), "--jobs", jobs]


def query_worker_command(settings: Settings) -> list[str]:
    """Return the command line of a worker for queries of readers alone, which ends when idle."""
    command = worker_command(settings, jobs="queries")
    return [*command, "--no-warm-up", "--idle-s", str(QUERIES_IDLE_S)]


def has_queries(jobs: JobQueue) -> bool:
    """Return whether a query of a reader waits, or runs: its worker may have died."""
    return bool(jobs.page(kinds=(query_job.KIND, why_job.KIND), statuses=OPEN, limit=1))


@dataclass
class WorkerHealth:
    """Whether the workers that the service starts live: what readiness says of them."""

    deaths: int = 0
    """Number of workers in a row that ended soon after their start."""
    code: int | None = None
    """Exit code of the last one."""

    def trouble(self) -> str | None:
        """Return why posts wait; None if workers start."""
        if self.deaths < DEATHS:
            return None
        return (
            f"no worker starts: the last {self.deaths} ended with code {self.code} soon after "
            "their start; posts wait, and the log says why"
        )


def _always() -> bool:
    return True


class Supervisor:
    """Worker processes of one service, each supervised by one thread, which starts none before
    `is_needed`."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        patience_s: float,
        health: WorkerHealth | None = None,
        is_needed: Callable[[], bool] = _always,
    ) -> None:
        self._command, self._patience_s = list(command), patience_s
        self._is_needed = is_needed
        self._health = health or WorkerHealth()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._threads = [
            threading.Thread(target=self._keep_alive, name=f"worker-{n}", daemon=True)
            for n in range(1, count + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Signal all workers to end, wait, then kill them."""
        self._stopping.set()
        with self._lock:
            running = list(self._running)
        for process in running:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + self._patience_s
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for process in running:
            _signal(process, signal.SIGKILL)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=5)

    def pids(self) -> list[int]:
        with self._lock:
            return [process.pid for process in self._running]

    def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            if not self._is_needed_now():
                self._stopping.wait(LOOK_S)
                continue
            began = time.monotonic()
            code = self._run_once()
            if self._stopping.is_set():
                return
            has_settled = time.monotonic() - began > SETTLED_S
            pause = FIRST_PAUSE_S if has_settled else pause
            self._health.deaths = 0 if has_settled else self._health.deaths + 1
            self._health.code = code
            _log.warning("worker ended with code %s, the next may start in %.1f s", code, pause)
            self._stopping.wait(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)

    def _is_needed_now(self) -> bool:
        try:
            return self._is_needed()
        except Unavailable:  # the database is away: look again
            return False

    def _run_once(self) -> int:
        with self._lock:
            if self._stopping.is_set():
                return 0
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, start_new_session=True
            )
            self._running.add(process)
        _log.info("worker started: pid %d", process.pid)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(SETTLED_S)
            self._health.deaths = 0
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process)


def supervisors(settings: Settings, jobs: JobQueue, health: WorkerHealth) -> list[Supervisor]:
    """Return the supervisors of the workers that a service starts."""
    patience_s = settings.shutdown_s
    return [
        Supervisor(
            worker_command(settings), settings.workers, patience_s=patience_s, health=health
        ),
        Supervisor(
            query_worker_command(settings),
            settings.query_workers if settings.workers else 0,
            patience_s=patience_s,
            is_needed=partial(has_queries, jobs),
        ),
    ]


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send the signal to the worker; a kill reaches its whole process group, including the JVM."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        elif process.poll() is None:
            process.send_signal(number)
