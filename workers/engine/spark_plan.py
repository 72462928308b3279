"""What a query may do, judged on Spark's plan of it: nothing it must not, nothing it forgets.

Plans are read as the JSON Spark gives of them: a node or an expression is a class name. Kinds of
nodes are allowed by name; what is unknown is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from .port import InvalidQuery, not_incremental

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate."
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
_OUTSIDE = {
    "ScriptTransformation": "TRANSFORM",
    "PythonUDTF": "a Python function",
    "PythonUDF": "a Python function",
    "CallMethodViaReflection": "a Java method",
    "TryReflect": "a Java method",
    "XmlToStructs": "from_xml",
    "SchemaOfXml": "schema_of_xml",
}
"""Ways to files, the network, other code; XML may be checked against a schema from anywhere."""
_NOT_REPEATABLE = {
    "AesEncrypt": "aes_encrypt",
    "CurrentBatchTimestamp": "current_timestamp",
    "CurrentCatalog": "current_catalog",
    "CurrentDatabase": "current_database",
    "CurrentDate": "current_date",
    "CurrentPath": "current_path",
    "CurrentTime": "current_time",
    "CurrentTimeZone": "current_timezone",
    "CurrentTimestamp": "current_timestamp",
    "CurrentUser": "current_user",
    "InputFileBlockLength": "input_file_block_length",
    "InputFileBlockStart": "input_file_block_start",
    "InputFileName": "input_file_name",
    "LocalTimestamp": "localtimestamp",
    "LocalTimestampWithPrecision": "localtimestamp",
    "CurrentTimestampWithPrecision": "current_timestamp",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "Now": "now",
    "Rand": "rand",
    "RandStr": "randstr",
    "Randn": "randn",
    "Shuffle": "shuffle",
    "SparkPartitionID": "spark_partition_id",
    "SparkVersion": "version",
    "Uniform": "uniform",
    "UserDefinedExpression": "a function from outside",
    "Uuid": "uuid",
}
"""Expressions whose value depends on when, where or by whom they are computed."""
_PARTITIONING = {
    "RebalancePartitions": "a hint about partitions",
    "Repartition": "a hint about partitions",
    "RepartitionByExpression": "DISTRIBUTE BY or CLUSTER BY",
    "Sample": "TABLESAMPLE",
    "SortWithinPartitions": "SORT BY",
}
"""What depends on how rows are spread over tasks."""
_TARGET = {
    "Cast": "dataType",
    "CsvToStructs": "schema",
    "JsonToStructs": "schema",
    "VariantGet": "targetType",
}
"""Where it stands in the plan what an expression makes of texts."""


def parts_of(frame: DataFrame) -> frozenset[str]:
    """What an analysed plan consists of: short names of classes, those of nodes once more as
    `plan X`, and what is not a class of its own."""
    plan = frame._jdf.queryExecution().analyzed()
    parts: set[str] = set()
    for tree in _trees(json.loads(plan.toJSON())):
        for node in tree:
            name = str(node["class"])
            short = name.rsplit(".", 1)[-1].rstrip("$")
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
    if not plan.deterministic():
        parts.add("NotDeterministic")
    return frozenset(parts)


def check_repeatable(parts: frozenset[str]) -> None:
    """Raises `InvalidQuery` if the query reaches outside, or would differ when it is repeated."""
    for table in (_OUTSIDE, _PARTITIONING):
        for part, what in table.items():
            if part in parts:
                raise InvalidQuery(f"{what} is not available in queries")
    for part, name in _NOT_REPEATABLE.items():
        if part in parts:
            raise not_repeatable(f"the function {name}")
    if "NotDeterministic" in parts:
        raise InvalidQuery("the query gives another result each time it is run")


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
