"""Plans that make each row of one input row, taught to say which one; and a final order made total.

A hidden column goes along from the inputs to the result. Who wrote the query does not see it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from .port import InvalidQuery
from .result import ROW
from .stateful.catalyst import Catalyst, Node, children, items, kind

ORDER_INSIDE = "ORDER BY is possible at the end of the last query only"


def inlined(catalyst: Catalyst, frame: DataFrame) -> Node:
    """The frame's plan, common table expressions put where they are used."""
    inline = catalyst.session._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE
    return inline(True, False, False).apply(catalyst.plan(frame))


def with_rows(catalyst: Catalyst, plan: Node) -> DataFrame:
    """The columns of the plan and `ROW`, which the views of its inputs hide."""
    below, row = _carried(catalyst, plan)
    return catalyst.frame(catalyst.project([*items(plan.output()), row], below))


def in_total_order(catalyst: Catalyst, plan: Node) -> DataFrame:
    """The plan, whose ORDER BY goes on with all columns. Raises `InvalidQuery`."""
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
    """The node with `ROW` among its columns, and that column."""
    for column in items(node.output()):
        if column.name() == ROW:
            return node, column
    below = [_carried(catalyst, child) for child in children(node)]
    plans = [plan for plan, _ in below]
    row = below[0][1]
    match kind(node):
        case "Project":
            return catalyst.project([*items(node.projectList()), row], plans[0]), row
        case "Expand":
            return catalyst.expand(node, [row], plans[0]), row
        case "Union":
            branches = [
                catalyst.project([*items(child.output()), column], plan)
                for child, (plan, column) in zip(children(node), below, strict=True)
            ]
            union = node.withNewChildren(catalyst.seq(branches))
            return union, items(union.output())[-1]
        case _:
            return node.withNewChildren(catalyst.seq(plans)), row


def _ascending(catalyst: Catalyst, column: Node) -> Node:
    expressions = catalyst.session._jvm.org.apache.spark.sql.catalyst.expressions
    direction, nulls = (
        getattr(getattr(expressions, name), "MODULE$") for name in ("Ascending$", "NullsFirst$")
    )
    return expressions.SortOrder(column, direction, nulls, catalyst.seq([]))


def _can_order(column: Node) -> bool:
    text = column.dataType().catalogString()
    return not any(kind in text for kind in ("map<", "variant", "interval"))
