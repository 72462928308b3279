"""A time limit for what one thread does on Spark.

Spark asks its tasks to end, and some do not hear it: a loop within one row, a regular expression.
Each would keep a place where tasks run for good, so the JVM is ended with them.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError

from ...runtime.log import LOGGER, line
from ..port.port import QUIET, Listener, QueryTooSlow
from . import jvm
from .session import Spark

GRACE_S = 20.0
"""What was told to end has so long."""
_LOOK_S = 0.2
_TASK = re.compile(r"Executor task launch worker for task \S+ in stage (\d+)\.")
"""How threads of the JVM are called while they run a task."""


@contextmanager
def limited(session: Spark, seconds: float, listener: Listener = QUIET) -> Iterator[str]:
    """Jobs this thread starts inside are cancelled after so many seconds, or by the listener; they
    are one group, whose name is given.

    Raises:
        QueryTooSlow: instead of what a cancelled job raises.
    """
    spark = session.sparkContext
    group = f"odf-{uuid.uuid4()}"
    expired = threading.Event()

    def expire() -> None:
        if not expired.is_set():
            expired.set()
            last.start()
        with suppress(Py4JError, ConnectionError):  # Spark is gone, and the query with it
            spark._jsc.sc().cancelJobGroupAndFutureJobs(group)

    timer, last = threading.Timer(seconds, expire), threading.Timer(GRACE_S, _end)
    timer.daemon = last.daemon = True
    spark.setJobGroup(group, "query of a dataset", interruptOnCancel=True)
    timer.start()
    try:
        listener.stops(expire)
        yield group
    except Exception as failed:
        if expired.is_set():
            raise QueryTooSlow(seconds) from failed
        raise
    finally:
        timer.cancel()
        last.cancel()
        if not expired.is_set():
            spark._jsc.clearJobGroup()
        else:
            with suppress(Py4JError, ConnectionError):
                spark._jsc.clearJobGroup()
                _end_if_stuck(spark)


def _end_if_stuck(spark: Any) -> None:
    """End the JVM if it goes on running tasks of jobs that have ended."""
    deadline = time.monotonic() + GRACE_S
    while _runs_for_nobody(spark):
        if time.monotonic() > deadline:
            _end()
            return
        time.sleep(_LOOK_S)


def _runs_for_nobody(spark: Any) -> bool:
    names = str(spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toString())
    running = {int(stage) for stage in _TASK.findall(names)}
    return bool(running - set(spark.statusTracker().getActiveStageIds()))


def _end() -> None:
    LOGGER.error(line("Spark is ended with a query that does not end"))
    jvm.end()
