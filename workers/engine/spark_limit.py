"""A time limit for what one thread does on Spark."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError

from .port import QUIET, Listener, QueryTooSlow
from .spark import Spark


@contextmanager
def limited(session: Spark, seconds: float, listener: Listener = QUIET) -> Iterator[None]:
    """Jobs this thread starts inside are cancelled after so many seconds, or by the listener.

    Raises:
        QueryTooSlow: instead of what a cancelled job raises.
    """
    spark = session.sparkContext
    group = f"odf-{uuid.uuid4()}"
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        with suppress(Py4JError, ConnectionError):  # Spark is gone, and the query with it
            spark._jsc.sc().cancelJobGroupAndFutureJobs(group)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    spark.setJobGroup(group, "query of a dataset", interruptOnCancel=True)
    timer.start()
    try:
        listener.stops(expire)
        yield
    except Exception as failed:
        if expired.is_set():
            raise QueryTooSlow(seconds) from failed
        raise
    finally:
        timer.cancel()
        spark._jsc.clearJobGroup()
