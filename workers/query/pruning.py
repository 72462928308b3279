"""Which slices a query needs, by the conditions on offsets that the optimized plan pushes down.

What is not understood excludes nothing. Plans show subqueries that stay in expressions as text
only, so a query with one needs all slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datafusion import DataFrame, Expr

from odf_node.storage.datasets.query.messages import Slice, Table

Bounds = tuple[int, int]
ALL: Bounds = (-(2**63), 2**63 - 1)
_SUBQUERY = "Subquery:"
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


def needed(
    result: DataFrame, tables: Sequence[Table], names: Mapping[str, int]
) -> dict[int, list[int]]:
    """By number of the table: numbers of the slices that may hold rows of the result."""
    plan = result.optimized_logical_plan()
    if any(line.strip() == _SUBQUERY for line in plan.display_indent().splitlines()):
        return {number: list(range(len(table.slices))) for number, table in enumerate(tables)}
    wanted: dict[int, list[Bounds]] = {}
    nodes: list[Any] = [plan]
    while nodes:
        node = nodes.pop()
        nodes.extend(node.inputs())
        variant = node.to_variant()
        if type(variant).__name__ == "TableScan" and variant.table_name() in names:
            number = names[variant.table_name()]
            column = tables[number].offset
            found = [_bounds(Expr(each), column) for each in variant.filters()]
            wanted.setdefault(number, []).append(_both(found))
    return {
        number: [
            at for at, piece in enumerate(tables[number].slices) if _meets(piece, wanted[number])
        ]
        for number in wanted
    }


def _meets(piece: Slice, wanted: Sequence[Bounds]) -> bool:
    return any(piece.start <= last and piece.end >= first for first, last in wanted)


def _both(found: Sequence[Bounds]) -> Bounds:
    return max((ALL[0], *(first for first, _ in found))), min(
        (ALL[1], *(last for _, last in found))
    )


def _bounds(condition: Expr, column: str) -> Bounds:
    """Between which offsets, both included, rows can meet the condition."""
    kind = condition.variant_name()
    if kind == "InList" and not condition.to_variant().negated():
        tested, *listed = condition.rex_call_operands()
        values = [_whole_number(each) for each in listed]
        if not _is_column(tested, column) or not values or None in values:
            return ALL
        known = [each for each in values if each is not None]
        return min(known), max(known)
    if kind != "BinaryExpr":
        return ALL
    operator = condition.rex_call_operator()
    left, right = condition.rex_call_operands()
    if operator == "AND":
        return _both([_bounds(left, column), _bounds(right, column)])
    if operator == "OR":
        one, other = _bounds(left, column), _bounds(right, column)
        return min(one[0], other[0]), max(one[1], other[1])
    return _compared(operator, left, right, column)


def _compared(operator: str, left: Expr, right: Expr, column: str) -> Bounds:
    if operator not in _MIRRORED:
        return ALL
    if left.variant_name() == "Literal":
        left, right, operator = right, left, _MIRRORED[operator]
    value = _whole_number(right)
    if value is None or not _is_column(left, column):
        return ALL
    return {
        "=": (value, value),
        "<": (ALL[0], value - 1),
        "<=": (ALL[0], value),
        ">": (value + 1, ALL[1]),
        ">=": (value, ALL[1]),
    }[operator]


def _is_column(expression: Expr, column: str) -> bool:
    return bool(expression.variant_name() == "Column" and expression.to_variant().name() == column)


def _whole_number(expression: Expr) -> int | None:
    if expression.variant_name() != "Literal":
        return None
    value = expression.python_value()
    value = value.as_py() if hasattr(value, "as_py") else value
    return value if isinstance(value, int) and not isinstance(value, bool) else None
