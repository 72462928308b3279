"""Turn the text of a stranger's SQL step into a checked frame; make the sessions for this.

Spark evaluates some functions while it analyses a query, before this module can check the plan: the
name in `IDENTIFIER(…)`, the schema of `from_json`, the descriptor that `from_protobuf` opens. So a
session has only the functions that are allowed, whatever way a query calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..port.port import InvalidQuery, check_begins_as_query
from .allowed import MOMENT_FUNCTIONS, Allowed
from .catalyst import Catalyst
from .errors import is_of_the_query, reason
from .plan import check_allowed, check_parsed, not_repeatable, parts_of
from .session import Spark

_UNKNOWN_FUNCTION = {
    "UNRESOLVED_ROUTINE": "routineName",
    "REQUIRES_SINGLE_PART_NAMESPACE": "identifier",
}
"""Conditions of Spark for an unknown function, and the message parameter with its name."""


def judged(session: SparkSession, query: str, allowed: Allowed) -> tuple[DataFrame, frozenset[str]]:
    """Analyse and check a query; return its frame and the parts of its plan. `session` must be one
    of `Sessions`.

    Raises:
        InvalidQuery: the query is wrong, or has a part that is not allowed.
    """
    check_begins_as_query(query)
    catalyst = Catalyst(session)
    try:
        parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
        check_parsed(parsed)
        frame = catalyst.frame(parsed)
    except (PySparkException, Py4JJavaError) as bad:
        if not is_of_the_query(bad):
            raise
        raise _unknown_function(bad) or InvalidQuery(reason(bad)) from None
    parts = parts_of(frame)
    check_allowed(parts, allowed)
    return frame, parts


def _unknown_function(bad: PySparkException | Py4JJavaError) -> InvalidQuery | None:
    if not isinstance(bad, PySparkException):
        return None
    named = _UNKNOWN_FUNCTION.get(str(bad.getCondition()))
    if named is None:
        return None
    name = (bad.getMessageParameters() or {}).get(named, "").rsplit(".", 1)[-1].strip("`")
    if name.lower() in MOMENT_FUNCTIONS:
        return not_repeatable(f"the function {name}")
    return InvalidQuery(f"the function {name} is not available in queries")


class Sessions:
    """Makes sessions for queries, one for each request. `settings` are Spark's."""

    def __init__(self, spark: Spark, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._spark, self._settings = spark, settings
        self._lock = threading.Lock()
        self._first: dict[int, SparkSession] = {}
        """Template session by the id of its `Allowed`. Requests get clones of it, because the
        removal of functions is slow."""

    def of(self, allowed: Allowed) -> SparkSession:
        """Return a new session that has the allowed functions and no others."""
        with self._lock:
            first = self._first.get(id(allowed))
            if first is None or first.sparkContext is not self._spark.sparkContext:
                first = self._first[id(allowed)] = self._made(allowed)
        return SparkSession(first.sparkContext, first._jsparkSession.cloneSession())

    def _made(self, allowed: Allowed) -> SparkSession:
        session = self._spark.newSession()
        for name, value in self._settings.items():
            session.conf.set(name, value)
        state = session._jsparkSession.sessionState()
        for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
            known = registry.listFunction()
            # One call for all names; a call for each name would delay the first query.
            for at, name in enumerate(str(known.mkString(" ")).split(" ")):
                if name.rsplit(".", 1)[-1] not in allowed.functions:
                    registry.dropFunction(known.apply(at))
        return session
