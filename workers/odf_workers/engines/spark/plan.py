"""Check Spark's plan of a query: its parts are allowed, repeatable, and computed row by row.

Spark returns a plan as JSON, in which each node or expression has a class name. `allowed.py` lists
the names that are allowed; a plan with any other name is refused.

Interpret failures of Spark: their messages, and whether the query caused them.

Turn the text of a stranger's SQL step into a checked frame; make the sessions for this.

Spark evaluates some functions while it analyses a query, before this module can check the plan: the
name in `IDENTIFIER(…)`, the schema of `from_json`, the descriptor that `from_protobuf` opens. So a
session has only the functions that are allowed, whatever way a query calls them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..port.port import InvalidQuery, check_begins_as_query, not_incremental
from .allowed import CALLED, MOMENT_FUNCTIONS, MOMENTS, PARSED, Allowed
from .catalyst import Catalyst
from .session import Spark

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_AGGREGATES = f"{_EXPRESSIONS}aggregate."
_ROW_BY_ROW = frozenset(
    {
        "CTERelationDef",
        "CTERelationRef",
        "Expand",
        "Filter",
        "Generate",
        "Project",
        "Sort",
        "SubqueryAlias",
        "Union",
        "View",
        "WithCTE",
        "LogicalRelation",
        "LogicalRDD",
    }
)
"""Nodes whose rows each come from one input row, in the order of the input rows."""
_NEEDS_OTHER_ROWS = {
    "Aggregate": "an aggregate",
    "AsOfJoin": "a join",
    "Deduplicate": "DISTINCT",
    "DeduplicateWithinWatermark": "DISTINCT",
    "Distinct": "DISTINCT or UNION without ALL",
    "EventTimeWatermark": "a watermark",
    "Except": "EXCEPT",
    "GlobalLimit": "LIMIT",
    "Intersect": "INTERSECT",
    "Join": "a join",
    "LateralJoin": "a join",
    "LocalLimit": "LIMIT",
    "LocalRelation": "rows that come from no input",
    "Offset": "OFFSET",
    "OneRowRelation": "rows that come from no input",
    "Pivot": "PIVOT",
    "Range": "rows that come from no input",
    "Tail": "LIMIT",
    "UnionLoop": "a recursive query",
    "Window": "a window function",
}
"""Other nodes, with their names in messages."""
_SUBQUERIES = frozenset(
    {
        "DynamicPruningSubquery",
        "Exists",
        "FunctionTableSubqueryArgumentExpression",
        "InSubquery",
        "LateralSubquery",
        "ListQuery",
        "ScalarSubquery",
    }
)
_TARGET = {
    "Cast": "dataType",
    "CsvToStructs": "schema",
    "JsonToStructs": "schema",
    "VariantGet": "targetType",
}
"""For expressions that convert texts: the member of the plan's JSON with the target type."""
_MARKS = frozenset({"NotDeterministic", "SortWithinPartitions", "ToTimestamp"})
"""Parts of `parts_of` that are not class names."""


def parts_of(frame: DataFrame) -> frozenset[str]:
    """Return the parts of an analysed plan: short names of classes, those of nodes also as
    `plan X`, and the marks of `_MARKS`."""
    plan = frame._jdf.queryExecution().analyzed()
    parts: set[str] = set()
    for tree in _trees(json.loads(plan.toJSON())):
        for node in tree:
            name, short = str(node["class"]), _short(node)
            parts.add(short)
            if name.startswith(_PLANS) or ".execution." in name:
                parts.add(f"plan {short}")
            elif name.startswith(_AGGREGATES):
                parts.add("plan Aggregate")
            if short == "ParseToTimestamp" or "timestamp" in json.dumps(
                node.get(_TARGET.get(short, ""), "")
            ):
                parts.add("ToTimestamp")
            if short == "Sort" and not node.get("global"):
                parts.add("SortWithinPartitions")
            if node.get("optNumPartitions"):  # set by a hint
                parts.add("Repartition")
    if not plan.deterministic():
        parts.add("NotDeterministic")
    return frozenset(parts)


def check_allowed(parts: frozenset[str], allowed: Allowed) -> None:
    """Raise `InvalidQuery` if the analysed query has a node or expression that is not allowed."""
    found = {part for part in parts if not part.startswith("plan ")} - _MARKS
    for part in sorted(found - allowed.expressions - allowed.nodes):
        raise _not_allowed(part)


def check_repeatable(parts: frozenset[str]) -> None:
    """Raise `InvalidQuery` if a repeated run of the query could give another result."""
    if "SortWithinPartitions" in parts:
        raise InvalidQuery("SORT BY is not available in queries")
    if "NotDeterministic" in parts:
        raise InvalidQuery("the query gives another result each time it is run")


def check_parsed(plan: Any) -> None:
    """Raise `InvalidQuery` if the parsed text is a command, or a query over more than views.

    Spark runs commands while it analyses them, so callers check this first.
    """
    for tree in _trees(json.loads(plan.toJSON())):
        for node in tree:
            part = _short(node)
            if part not in PARSED and not str(node["class"]).startswith(_EXPRESSIONS):
                raise _not_allowed(part)


def _not_allowed(part: str) -> InvalidQuery:
    if part in MOMENTS:
        return not_repeatable(CALLED[part])
    return InvalidQuery(f"{CALLED.get(part, part)} is not available in queries")


def check_row_by_row(parts: frozenset[str]) -> None:
    """Raise `NotIncremental` if a row of the result may depend on several input rows."""
    nodes = sorted(part.removeprefix("plan ") for part in parts if part.startswith("plan "))
    for node in nodes:
        if node not in _ROW_BY_ROW:
            raise not_incremental(_NEEDS_OTHER_ROWS.get(node, node))
    if parts & _SUBQUERIES:
        raise not_incremental("a subquery")


def not_repeatable(what: str) -> InvalidQuery:
    return InvalidQuery(
        f"{what} is not available: the result has to be the same whenever and wherever it is "
        "computed"
    )


def _short(node: dict[str, Any]) -> str:
    return str(node["class"]).rsplit(".", 1)[-1].rstrip("$")


def _trees(value: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield the trees of nodes in JSON, each as a list with parents before their children."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            nodes = [each for each in item if isinstance(each, dict) and "class" in each]
            if nodes:
                yield nodes
            stack.extend(item)


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


_UNKNOWN_FUNCTION = {
    "UNRESOLVED_ROUTINE": "routineName",
    "REQUIRES_SINGLE_PART_NAMESPACE": "identifier",
}
"""Conditions of Spark for an unknown function, and the message parameter with its name."""


def judged(session: SparkSession, query: str, allowed: Allowed) -> tuple[DataFrame, frozenset[str]]:
    """Analyse and check a query; return its frame and the parts of its plan. `session` must be one
    of `SparkSessions`.

    Raises:
        InvalidQuery: the query is wrong, or has a part that is not allowed.
    """
    check_begins_as_query(query)
    catalyst = Catalyst(session)
    try:
        parsed = catalyst.parsed_command(query)
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


class SparkSessions:
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
