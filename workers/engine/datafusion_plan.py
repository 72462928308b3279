"""What a query may do, judged on DataFusion's logical plan: nothing that it forgets.

Kinds of nodes are allowed by name; what is unknown is refused.
"""

from __future__ import annotations

import re
from typing import Any

from datafusion import DataFrame, SessionContext

from .port import InvalidQuery, not_incremental

NOT_REPEATABLE = (
    "current_date",
    "current_time",
    "current_timestamp",
    "gen_random_uuid",
    "now",
    "rand",
    "random",
    "today",
    "uuid",
    "uuidv4",
    "version",
)
"""Functions whose value depends on when or where they are computed."""
TABLE_FUNCTIONS = ("generate_series", "range")
"""They make rows out of nothing, and again in every iteration."""
_ROW_BY_ROW = frozenset(
    {"Filter", "Projection", "Sort", "SubqueryAlias", "TableScan", "Union", "Unnest"}
)
"""Nodes whose rows each come from one input row, in the order of the input rows."""
_NEEDS_OTHER_ROWS = {
    "Aggregate": "an aggregate",
    "Distinct": "DISTINCT or UNION without ALL",
    "EmptyRelation": "rows that come from no input",
    "Join": "a join",
    "Limit": "LIMIT",
    "RecursiveQuery": "a recursive query",
    "Values": "rows that come from no input",
    "WindowExpr": "a window function",
}
"""What they are called in messages."""

_QUOTED = re.compile(r"(?s)'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|`[^`]*`|--[^\n]*|/\*.*?\*/")
_PASSED_OVER = re.compile(r"(?i)\b(TABLESAMPLE|PREWHERE|CONNECT\s+BY)\b")
"""What the parser takes and the planner drops, so that no plan shows it."""


def check_words(query: str) -> None:
    """Raises `InvalidQuery` for words that would have no effect without anybody noticing."""
    found = _PASSED_OVER.search(_QUOTED.sub(" ", query))
    if found:
        raise InvalidQuery(f"{found[1].upper()} is not available in queries")


def forget_functions(context: SessionContext) -> None:
    """Queries of the context do not know functions that would not repeat their result."""
    for name in NOT_REPEATABLE:
        context.deregister_udf(name)
    for name in TABLE_FUNCTIONS:
        context.deregister_udtf(name)


def check_row_by_row(result: DataFrame) -> None:
    """Raises `NotIncremental` if rows of the result depend on more than one input row each."""
    plan = result.logical_plan()
    stack: list[Any] = [plan]
    while stack:
        node = stack.pop()
        kind = type(node.to_variant()).__name__
        if kind not in _ROW_BY_ROW:
            raise not_incremental(_NEEDS_OTHER_ROWS.get(kind, kind))
        stack.extend(node.inputs())
    if any(line.strip() == "Subquery:" for line in plan.display_indent().splitlines()):
        raise not_incremental("a subquery")
