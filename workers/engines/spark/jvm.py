"""The JVM of this process's Spark: report how it ended, and leave it so that another can start.

It is a child process. PySpark starts it, and does not expect it to end.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

END_S = 0.5
"""Seconds to wait for the end of a JVM that stopped responding."""
EXIT_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Without this flag only the thread without memory ends, and others may wait for it for ever."""
_WITHOUT_MEMORY = frozenset({3, 52})
"""Exit codes of a JVM without memory: the one of that flag, and the one of Spark."""
_ended: set[int] = set()
"""Ids of the processes that `end` has killed."""


def how_it_ended(patience_s: float = END_S) -> str | None:
    """Return a text about the end of the JVM; None if it is running or was not started."""
    process = _process()
    if process is None:
        return None
    try:
        code = process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return None
    if code in _WITHOUT_MEMORY:
        return "it ran out of memory"
    if code == -signal.SIGKILL:
        return "it was killed, as systems do that run out of memory"
    return f"it ended with code {code}"


def end() -> None:
    """Kill the JVM. `was_ended` is true from now until `leave`."""
    process = _process()
    if process is not None:
        _ended.add(process.pid)
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
        _ended.discard(process.pid)
    if context is not None:
        context._jsc = None  # `stop` must not call the JVM, which has ended
        with suppress(OSError):
            context.stop()
    if gateway is not None:
        with suppress(Exception):  # it closes connections whose other end has gone
            gateway.close()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)
