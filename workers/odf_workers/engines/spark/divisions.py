"""Refuse divisions of whole numbers, which give fractions on Spark but not in other dialects."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ..port.port import InvalidQuery
from .catalyst import EXPRESSIONS, Catalyst, Node, children, items, kind, walk

_WHOLE = frozenset({"byte", "short", "integer", "long"})


def refuse_whole_divisions(catalyst: Catalyst, frame: DataFrame) -> None:
    """Raise `InvalidQuery` if `/` divides whole numbers and no cast makes the intention clear."""
    written = catalyst.class_of(EXPRESSIONS, "Cast").USER_SPECIFIED_CAST()
    for expression in _expressions(frame._jdf.queryExecution().analyzed()):
        if kind(expression) != "Divide":
            continue
        if all(
            kind(side) == "Cast"
            and not side.getTagValue(written).isDefined()
            and children(side)[0].dataType().typeName() in _WHOLE
            for side in children(expression)
        ):
            raise InvalidQuery(
                "whole numbers are divided by `/`, which is a fraction on Spark and a whole number "
                "in the dialect SqlDataFusion: write `a div b` for whole numbers, or "
                "`cast(a as double) / b`"
            )


def _expressions(plan: Node) -> Iterator[Node]:
    for expression in items(plan.expressions()):
        yield from walk(expression)
    for below in (*items(plan.subqueries()), *children(plan)):
        yield from _expressions(below)
