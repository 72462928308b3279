"""What a query may do, judged on Spark's plan of it: nothing it must not, nothing it forgets.

Plans are read as the JSON Spark gives of them: a node or an expression is a class name. Both are
allowed by name (`spark_allowed.py`), alike for every use of queries; an unknown one is refused.
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
"""What they are called in messages."""
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
"""Where it stands in the plan what an expression makes of texts."""
_MARKS = frozenset({"NotDeterministic", "SortWithinPartitions", "ToTimestamp"})
"""Parts that are no classes."""


def parts_of(frame: DataFrame) -> frozenset[str]:
    """What an analysed plan consists of: short names of classes, those of nodes once more as
    `plan X`, and what is not a class of its own."""
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
            if node.get("optNumPartitions"):  # by a hint
                parts.add("Repartition")
    if not plan.deterministic():
        parts.add("NotDeterministic")
    return frozenset(parts)


def check_allowed(parts: frozenset[str], allowed: Allowed) -> None:
    """Raises `InvalidQuery` if the analysed query has a node or expression that is not allowed."""
    found = {part for part in parts if not part.startswith("plan ")} - _MARKS
    for part in sorted(found - allowed.expressions - allowed.nodes):
        raise _not_allowed(part)


def check_repeatable(parts: frozenset[str]) -> None:
    """Raises `InvalidQuery` if the query would differ when it is repeated."""
    if "SortWithinPartitions" in parts:
        raise InvalidQuery("SORT BY is not available in queries")
    if "NotDeterministic" in parts:
        raise InvalidQuery("the query gives another result each time it is run")


def check_parsed(plan: Any) -> None:
    """Raises `InvalidQuery` if what is parsed is a command, or a query over more than views.

    Commands run while they are analysed, so this comes first.
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
    """Raises `NotIncremental` if rows of the result depend on more than one input row each."""
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
    """Trees of nodes, each listed from its root, a parent before its children."""
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
