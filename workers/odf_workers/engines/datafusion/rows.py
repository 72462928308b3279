"""Extend DataFusion plans: pass the number of the input row along, and make a final order total.

This module rebuilds a plan node by node, and adds a hidden column that passes from the inputs to
the result. The author of the query does not see it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext, col
from datafusion.expr import SortExpr

from ..port.port import ROW, InvalidQuery

ORDER_INSIDE = "ORDER BY is possible at the end of the last query only"


class CannotFollow(Exception):
    """The plan has a node that this module cannot rebuild."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def with_rows(context: SessionContext, result: DataFrame) -> DataFrame:
    """Return the frame with the column `ROW`, which the views of its inputs hide.

    Raises:
        CannotFollow: the plan has a node that makes several rows of one.
    """
    return _carried(context, result.logical_plan())


def has_order(result: DataFrame) -> bool:
    """Return whether the query orders its rows. Raise `InvalidQuery` if an inner part does."""
    nodes = [result.logical_plan()]
    top = _kind(nodes[0])
    if top == "Projection":
        top = _kind(nodes[0].inputs()[0])
    found = 0
    while nodes:
        node = nodes.pop()
        found += _kind(node) == "Sort"
        nodes.extend(node.inputs())
    if found and top != "Sort":
        raise InvalidQuery(ORDER_INSIDE)
    return found > 0


def in_total_order(context: SessionContext, result: DataFrame) -> DataFrame:
    """Return the frame with all columns added to its ORDER BY, but nested ones."""
    plan = result.logical_plan()
    projection = plan if _kind(plan) == "Projection" else None
    sort = plan.inputs()[0] if projection is not None else plan
    below = context.create_dataframe_from_logical_plan(sort.inputs()[0])
    given = [
        SortExpr(Expr(each.expr()), each.ascending(), each.nulls_first())
        for each in sort.to_variant().sort_exprs()
    ]
    ties = [
        SortExpr(col(quoted(field.name)), ascending=True, nulls_first=True)
        for field in below.schema()
        if not pa.types.is_nested(field.type)
    ]
    total = below.sort(*given, *ties)
    if projection is not None:
        total = total.select(*[Expr(each) for each in projection.to_variant().projections()])
    return total


def _carried(context: SessionContext, node: Any) -> DataFrame:
    variant = node.to_variant()
    kind = type(variant).__name__
    if kind == "Projection":
        known = context.create_dataframe_from_logical_plan(node)
        if ROW in known.schema().names:
            return known
    below = [_carried(context, child) for child in node.inputs()]
    match kind:
        case "SubqueryAlias":
            return below[0].alias(quoted(variant.alias()))
        case "Filter":
            return below[0].filter(Expr(variant.predicate()))
        case "Projection":
            columns = [Expr(each) for each in variant.projections()]
            return below[0].select(*columns, col(quoted(ROW)))
        case "Union":
            frame = below[0]
            for branch in below[1:]:
                frame = frame.union(branch)
            return frame
    raise CannotFollow(kind)


def _kind(node: Any) -> str:
    return type(node.to_variant()).__name__
