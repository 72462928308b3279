"""Limit the time of the work of one thread on Spark.

Spark signals its tasks to end, and some ignore that: a loop within one row, a regular expression.
Such a task would occupy a task slot for ever, so this module kills the JVM.
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
from .executors import awaited
from .session import Spark

GRACE_S = 20.0
"""Seconds that cancelled work has to end, before the JVM is killed."""
_LOOK_S = 0.2
_TASK = re.compile(r"Executor task launch worker for task \S+ in stage (\d+)\.")
"""Matches the name of a thread of the JVM that runs a task."""


@contextmanager
def limited(session: Spark, seconds: float, listener: Listener = QUIET) -> Iterator[str]:
    """Cancel the Spark jobs that this thread starts in the block after so many seconds, or when the
    listener stops them. They are one job group; the block gets its name.

    Raises:
        QueryTooSlow: the jobs were cancelled; it replaces the error that they raise.
    """
    spark = session.sparkContext
    group = f"odf-{uuid.uuid4()}"
    expired = threading.Event()

    def expire() -> None:
        if not expired.is_set():
            expired.set()
            last.start()
        with suppress(Py4JError, ConnectionError):  # if Spark has ended, so has the query
            spark._jsc.sc().cancelJobGroupAndFutureJobs(group)

    timer, last = threading.Timer(seconds, expire), threading.Timer(GRACE_S, _end)
    timer.daemon = last.daemon = True
    spark.setJobGroup(group, "query of a dataset", interruptOnCancel=True)
    timer.start()
    try:
        listener.stops(expire)
        with awaited(spark):
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
    """Kill the JVM if it still runs tasks of cancelled jobs after `GRACE_S`."""
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
    jvm.end("it was ended with a query that did not end")
