"""Notice that a cluster gives no executors, so that the worker can start another Spark.

A standalone master that has lost what it knew gives executors only to drivers that register with
it anew, and does not tell the others: their jobs would wait for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError

from ...runtime.log import LOGGER, line
from . import jvm

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
            jvm.end(reason)
            return
