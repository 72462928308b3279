"""The JVM of this process's Spark: report how Spark ended, and leave it so that another can start.

It is a child process. PySpark starts it, and does not expect it to end.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

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
