"""The JVM of this process's Spark: report how Spark ended, and leave it so that another can start.

It is a child process. PySpark starts it, and does not expect it to end.

Notice that a cluster gives no executors, so that the worker can start another Spark.

A standalone master that has lost what it knew gives executors only to drivers that register with
it anew, and does not tell the others: their jobs would wait for ever.

Make files visible to a confined Spark, by links in its scratch folder to files of the store.

So Spark sees the slices that its jobs read, and no others. If the store is on another file system
than the scratch folder, Spark may read the folder of the objects instead.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...runtime.command import LOGGER, line

END_S = 0.5
"""Seconds to wait for the end of a JVM that stopped responding."""
EXIT_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Without this flag only the thread without memory ends, and others may wait for it for ever."""
_WITHOUT_MEMORY = frozenset({3, 52})
"""Exit codes of a JVM without memory: the one of that flag, and the one of Spark."""
STOPPED = "its cluster ended it"
_ended: dict[int, str] = {}
"""Why `end` has killed a process, by its id."""


def how_it_ended(patience_s: float = END_S) -> str | None:
    """Return a text about the end of the JVM, or of Spark in it; None if Spark is running or was
    not started."""
    process = _process()
    if process is None:
        return None
    if process.pid in _ended:
        return _ended[process.pid]
    try:
        code = process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return STOPPED if _is_stopped() else None
    if code in _WITHOUT_MEMORY:
        return "it ran out of memory"
    if code == -signal.SIGKILL:
        return "it was killed, as systems do that run out of memory"
    return f"it ended with code {code}"


def end(reason: str) -> None:
    """Kill the JVM. `was_ended` is true, and `how_it_ended` returns the reason, until `leave`."""
    process = _process()
    if process is not None:
        _ended[process.pid] = reason
        process.kill()


def was_ended() -> bool:
    """Return whether `end` has killed the current JVM."""
    process = _process()
    return process is not None and process.pid in _ended


def leave() -> None:
    """Kill the JVM if it is running, and have PySpark forget it, so that another can start."""
    process, gateway = _process(), SparkContext._gateway
    context: Any = SparkContext._active_spark_context
    if process is not None:
        process.kill()
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        _ended.pop(process.pid, None)
    if context is not None:
        context._jsc = None  # `stop` must not call the JVM, which has ended
        with suppress(OSError):
            context.stop()
    if gateway is not None:
        with suppress(Exception):  # it closes connections whose other end has gone
            gateway.close()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _is_stopped() -> bool:
    """Return whether Spark has ended in a JVM that is running: a cluster ends the driver's part of
    an application that it gives up, or that an administrator ends on its page."""
    context: Any = SparkContext._active_spark_context
    try:
        return context is not None and bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):  # the JVM does not respond
        return False


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)


LOOK_S = 5.0
"""Seconds between two looks at the executors."""
_patience_s = 0.0


def use(patience_s: float) -> None:
    """End a Spark that had no executor for so many seconds of a job; 0 means never."""
    global _patience_s
    _patience_s = patience_s


@contextmanager
def awaited(spark: Any) -> Iterator[None]:
    """Kill the JVM of this Spark if it has no executor for too long during the block. The work in
    the block then fails as if Spark had ended by itself."""
    if not _patience_s:
        yield
        return
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(spark, done, _patience_s), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()


def _watch(spark: Any, done: threading.Event, patience_s: float) -> None:
    absent_since: float | None = None
    while not done.wait(min(LOOK_S, patience_s / 4)):
        try:
            executors = int(spark._jsc.sc().getExecutorMemoryStatus().size()) - 1  # and the driver
        except (Py4JError, OSError):  # Spark has ended, and so has its job
            return
        now = time.monotonic()
        absent_since = None if executors else absent_since or now
        if absent_since is not None and now - absent_since >= patience_s:
            reason = f"its cluster gave it no executor for {patience_s:g} s"
            LOGGER.error(line("Spark is ended", reason=reason))
            end(reason)
            return


LINKS = "shown"
_lent_on = False
"""Whether links stay although a job has ended."""
_sight: tuple[Path, tuple[Path, ...]] | None = None
"""The scratch folder of this process's Spark, and all folders that it sees. None means that it sees
everything."""


def sees(scratch: Path, folders: Sequence[Path]) -> None:
    """Record that Spark sees only these folders from now on."""
    global _sight
    _sight = (scratch, tuple(folder.absolute() for folder in (scratch, *folders)))


def sees_everything() -> None:
    global _sight
    _sight = None


def shown(paths: Sequence[Path]) -> list[Path]:
    """Return paths of the same files at which Spark sees them."""
    return [_shown(path) for path in paths]


@contextmanager
def lent_on() -> Iterator[None]:
    """Keep all links during the block: jobs that do not use Spark end meanwhile."""
    global _lent_on
    _lent_on = True
    try:
        yield
    finally:
        _lent_on = False


def clear() -> None:
    """Remove the links, unless a block keeps them. The jobs that read them must have ended."""
    if _sight is not None and not _lent_on:
        shutil.rmtree(_sight[0] / LINKS, ignore_errors=True)


def can_link(store: Path, scratch: Path) -> bool:
    """Return whether files of the store can have hard links in the scratch folder."""
    there = next(each for each in (store.absolute(), *store.absolute().parents) if each.exists())
    return there.stat().st_dev == scratch.stat().st_dev


def _shown(path: Path) -> Path:
    if _sight is None or any(path.absolute().is_relative_to(each) for each in _sight[1]):
        return path
    folder = _sight[0] / LINKS / secrets.token_hex(8)
    folder.mkdir(parents=True)
    try:
        os.link(path, folder / path.name)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, folder / path.name)
    return folder / path.name
