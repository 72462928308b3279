"""Extend Spark plans: pass the number of the input row along, and make a final order total.

A hidden column passes from the inputs to the result, for plans that compute each row from one
input row. The author of the query does not see it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ..port.port import ROW, InvalidQuery
from ..spark.catalyst import EXPRESSIONS, Catalyst, Node, children, items, kind

ORDER_INSIDE = "ORDER BY is possible at the end of the last query only"


def analysed(catalyst: Catalyst, frame: DataFrame, parts: frozenset[str]) -> Node:
    """Return the frame's plan, with common table expressions inlined."""
    plan = catalyst.plan(frame)
    if "WithCTE" not in parts:
        return plan
    return catalyst.inlined(plan)


def with_rows(catalyst: Catalyst, plan: Node) -> DataFrame:
    """Return a frame with the columns of the plan and `ROW`, which the views of its inputs hide.

    A call into the JVM costs as much as the work on many rows, so lists stay in the JVM.
    """
    return catalyst.frame(_carried(catalyst, plan)[0])


def in_total_order(catalyst: Catalyst, plan: Node) -> DataFrame:
    """Return a frame of the plan with all sortable columns added to its ORDER BY. Raise
    `InvalidQuery` if the plan is not sorted at its end."""
    top = plan if kind(plan) == "Project" else None
    sort = children(plan)[0] if top is not None else plan
    if kind(sort) != "Sort" or not getattr(sort, "global")():
        raise InvalidQuery(ORDER_INSIDE)
    below = children(sort)[0]
    ties = [_ascending(catalyst, each) for each in items(below.output()) if _can_order(each)]
    total = sort.copy(catalyst.seq([*items(sort.order()), *ties]), True, below, sort.hint())
    if top is not None:
        total = top.withNewChildren(catalyst.seq([total]))
    return catalyst.frame(total)


def _carried(catalyst: Catalyst, node: Node) -> tuple[Node, Node]:
    """Return the node with `ROW` among its columns, and that column."""
    name = kind(node)
    if name == "Project":
        last = node.output().last()
        if last.name() == ROW:
            return node, last
    nodes = children(node)
    below = [_carried(catalyst, child) for child in nodes]
    plan, row = below[0]
    match name:
        case "Project":
            return node.copy(node.projectList().appended(row), plan), row
        case "Expand":
            return catalyst.expand(node, [row], plan), row
        case "Union":
            branches = [
                branch
                if kind(child) == "Project"
                else catalyst.project([*items(child.output()), column], branch)
                for child, (branch, column) in zip(nodes, below, strict=True)
            ]
            union = node.withNewChildren(catalyst.seq(branches))
            return union, union.output().last()
        case _:
            return node.withNewChildren(catalyst.seq([plan])), row


def _ascending(catalyst: Catalyst, column: Node) -> Node:
    direction, nulls = (
        getattr(catalyst.class_of(EXPRESSIONS, name), "MODULE$")
        for name in ("Ascending$", "NullsFirst$")
    )
    return catalyst.class_of(EXPRESSIONS, "SortOrder")(column, direction, nulls, catalyst.seq([]))


def _can_order(column: Node) -> bool:
    text = column.dataType().catalogString()
    return not any(kind in text for kind in ("map<", "variant", "interval"))
