"""Interpret failures of Spark: their messages, and whether the query caused them."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SHOWN_CHARS = 2_000
_OURS = ("INTERNAL_ERROR", "TASK_WRITE_FAILED")
_JAVA_OURS = ("java.lang.OutOfMemoryError", "java.io.IOException", "java.lang.InterruptedException")
_JAVA_QUERYS = (
    "java.lang.StackOverflowError",
    "java.util.IllegalFormat",
    "java.util.MissingFormat",
    "java.util.UnknownFormat",
    "org.xml.sax.",
    "javax.xml.",
)
"""Errors that a query causes and for which Spark names no condition: expressions too deep to plan,
wrong formats, rows that are no XML."""
_MAX_CAUSES = 32
_PLAN = re.compile(r"(?s)(\bline \d+ pos \d+);\n.*")
"""Matches the plan that the analyser prints after a position. Authors of queries do not need it."""


def reason(bad: Exception) -> str:
    """Return Spark's error message, without its stack and plan."""
    if isinstance(bad, Py4JJavaError) and not any(_condition(each) for each in _causes(bad)):
        return str(_causes(bad)[-1].toString())[:SHOWN_CHARS]
    text = str(bad).split("\n\tat ", 1)[0].split("JVM stacktrace", 1)[0]
    return _PLAN.sub(r"\1", text).strip()[:SHOWN_CHARS]


def is_of_the_query(bad: PySparkException | Py4JJavaError) -> bool:
    """Return whether the query or its rows caused the error, rather than the machine or the engine.

    Spark names a condition for most errors of a query. Without one, the innermost cause decides.
    """
    if isinstance(bad, PySparkException):
        return not str(bad.getCondition() or "").startswith(_OURS)
    found = _causes(bad)
    names = [each.getClass().getName() for each in found]
    if any(name.startswith(_JAVA_OURS) for name in names):
        return False
    return any(_condition(each) for each in found) or names[-1].startswith(_JAVA_QUERYS)


def _causes(bad: Py4JJavaError) -> list[Any]:
    """Return the chain of causes, the outermost first."""
    found: list[Any] = []
    cause = bad.java_exception
    while cause is not None and len(found) < _MAX_CAUSES:
        found.append(cause)
        cause = cause.getCause()
    return found


def _condition(exception: Any) -> bool:
    """Return whether an exception names a condition that the query caused."""
    name = exception.getClass().getName()
    if not name.startswith("org.apache.spark."):
        return False
    text = str(exception.getMessage() or "")
    return text.startswith("[") and not text.startswith(tuple(f"[{each}" for each in _OURS))
