"""Check Spark's plan of a query: its parts are allowed, repeatable, and computed row by row.

Spark returns a plan as JSON, in which each node or expression has a class name. `allowed.py` lists
the names that are allowed; a plan with any other name is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from ..port.port import InvalidQuery, not_incremental
from .allowed import CALLED, MOMENTS, PARSED, Allowed

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
