"""A standalone Spark on this machine, as `odf-worker spark-cluster` runs it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from buckets import log_in
from nodes import COMMAND
from processes import python_path
from servers import S3Server, free_port, wait_until

from odf_workers.engines.spark.machine import using
from odf_workers.engines.spark.session import LOCAL_JVM_FLAGS


def _quoted(flag: str) -> str:
    return f'"{flag}"'


RUN = (COMMAND.with_name("odf-worker"), "spark-cluster")
HERE = ("--host", "127.0.0.1")
MEMORY_MIB = 1200
QUICK_START = {"JDK_JAVA_OPTIONS": " ".join((*LOCAL_JVM_FLAGS, *map(_quoted, using())))}
"""For every Java that is started under it: none lives long enough to be worth optimizing."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs. Its workers start another executor for one that is gone."""

    url: str
    workers: list[int]
    """Their processes."""
    restart_master: Callable[[], None]
    """Kill the master, and start it again."""
    replace_master: Callable[[], None]
    """Kill the master, and start another, which knows nothing of it."""

    def executors(self) -> list[int]:
        """Processes of all executors there are now."""
        return [pid for worker in self.workers for pid in children(worker)]

    def is_working(self, pid: int) -> bool:
        """Whether an executor has Python processes, as it has from its first task of ours on."""
        return bool(children(pid))

    def machines_at_work(self) -> int:
        """How many of the workers have an executor that is working."""
        return sum(any(map(self.is_working, children(worker))) for worker in self.workers)

    def kill(self, pid: int) -> None:
        """At once, as a machine that is gone."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def cluster_without_keys(s3: S3Server, folder: Path) -> Iterator[Cluster]:
    """A master and two workers; this process has the keys of the bucket, and executors have not."""
    with pytest.MonkeyPatch.context() as patch:
        log_in(patch, s3)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONPATH", python_path())
        for name, value in QUICK_START.items():
            patch.setenv(name, value)
        with spark_cluster(folder) as running:
            yield running


def children(process: int) -> list[int]:
    """Numbers of the processes that it started and that are there."""
    return [pid for pid, parent in _parents() if parent == process]


def _parents() -> Iterator[tuple[int, int]]:
    """The number of each process, and its parent's."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                behind_name = (entry / "stat").read_text().rpartition(")")[2]
                yield int(entry.name), int(behind_name.split()[1])


@contextmanager
def spark_cluster(
    folder: Path, *, workers: int = 2, cores: int = 1, **env: str
) -> Iterator[Cluster]:
    """A master and so many workers, each with so many cores and `MEMORY_MIB`. Executors inherit
    what the command lets through of this environment and of `env`, and no key of a bucket."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    given = {
        **os.environ,
        **QUICK_START,
        **env,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    master = ["master", *HERE, "--port", str(port), "--folder", str(folder / "master")]
    with ExitStack() as stack, ExitStack() as of_master:

        def start_master(ready: str, *, forget: bool = False) -> None:
            of_master.close()
            if forget:
                shutil.rmtree(folder / "master")
            _, log = of_master.enter_context(_running(master, folder, "master", given))
            wait_until(lambda: ready in log.read_text(), "the Spark master", 150)

        start_master("New state: ALIVE")
        logs, pids = [], []
        for number in range(workers):
            place = folder / f"worker-{number}"
            words = ["machine", url, *HERE, "--folder", str(place)]
            words += ["--memory", f"{MEMORY_MIB}m", "--cores", str(cores)]
            name = f"worker-{number}"
            pid, log = stack.enter_context(_running(words, folder, name, given))
            logs.append(log)
            pids.append(pid)
        for each in logs:
            wait_until(lambda log=each: _is_registered(log), "a Spark worker", 150)
        yield Cluster(
            url,
            pids,
            partial(start_master, "Recovery complete"),
            partial(start_master, "New state: ALIVE", forget=True),
        )


def _is_registered(log: Path) -> bool:
    return "Successfully registered" in log.read_text()


@contextmanager
def _running(
    words: list[str], folder: Path, name: str, env: dict[str, str]
) -> Iterator[tuple[int, Path]]:
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*RUN, *words], stdout=out, stderr=out, env=env, cwd=folder, start_new_session=True
        )
    try:
        yield process.pid, log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=90)
