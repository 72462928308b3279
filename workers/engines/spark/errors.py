"""Failures of Spark: what they say, and whose fault they are."""

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
"""Named by no condition: expressions too deep to be planned, wrong formats, rows without XML."""
_MAX_CAUSES = 32
_PLAN = re.compile(r"(?s)(\bline \d+ pos \d+);\n.*")
"""Behind the place the analyser shows its plan, which says nothing to authors of queries."""


def reason(bad: Exception) -> str:
    """What Spark says is wrong, without its stack and plan."""
    if isinstance(bad, Py4JJavaError) and not any(_condition(each) for each in _causes(bad)):
        return str(_causes(bad)[-1].toString())[:SHOWN_CHARS]
    text = str(bad).split("\n\tat ", 1)[0].split("JVM stacktrace", 1)[0]
    return _PLAN.sub(r"\1", text).strip()[:SHOWN_CHARS]


def is_of_the_query(bad: PySparkException | Py4JJavaError) -> bool:
    """Whether the query or its rows are to blame, rather than the machine or the engine.

    The innermost cause tells: Spark names the condition of whatever a query does wrong.
    """
    if isinstance(bad, PySparkException):
        return not str(bad.getCondition() or "").startswith(_OURS)
    found = _causes(bad)
    names = [each.getClass().getName() for each in found]
    if any(name.startswith(_JAVA_OURS) for name in names):
        return False
    return any(_condition(each) for each in found) or names[-1].startswith(_JAVA_QUERYS)


def _causes(bad: Py4JJavaError) -> list[Any]:
    """From the outermost to the innermost."""
    found: list[Any] = []
    cause = bad.java_exception
    while cause is not None and len(found) < _MAX_CAUSES:
        found.append(cause)
        cause = cause.getCause()
    return found


def _condition(exception: Any) -> bool:
    """Whether an exception names what the query did wrong."""
    name = exception.getClass().getName()
    if not name.startswith("org.apache.spark."):
        return False
    text = str(exception.getMessage() or "")
    return text.startswith("[") and not text.startswith(tuple(f"[{each}" for each in _OURS))
