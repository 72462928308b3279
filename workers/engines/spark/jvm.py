"""The JVM behind Spark of this process: how it ended, and leaving it so that another may start.

It is a child of this process, which PySpark starts and then takes for immortal.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

END_S = 0.5
"""A JVM that stopped answering is given so long to be gone."""
EXIT_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Else a thread that is out of memory ends alone, and a thread that waits for it waits for ever."""
_WITHOUT_MEMORY = frozenset({3, 52})
"""How it ends by that flag, and how Spark ends it."""
_ended: set[int] = set()
"""Processes that `end` ended."""


def how_it_ended(patience_s: float = END_S) -> str | None:
    """What ended the JVM, for people; None while it is there, or none was started."""
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
    """End the JVM, whatever it does; `was_ended` says so until it is left."""
    process = _process()
    if process is not None:
        _ended.add(process.pid)
        process.kill()


def was_ended() -> bool:
    """Whether this process ended the JVM that it has."""
    process = _process()
    return process is not None and process.pid in _ended


def leave() -> None:
    """End the JVM if it is there, and have PySpark forget it: who needs Spark starts another."""
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
        context._jsc = None  # there is nobody to be told
        with suppress(OSError):
            context.stop()
    if gateway is not None:
        with suppress(Exception):  # closes connections nobody answers at
            gateway.close()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)
