"""Convert conditions of a plan to predicates on columns, as far as they can exclude slices.

Conditions that are not understood restrict nothing. Source: Kartothek facts, "When pruning is
sound".

Find the slices that a query needs, by the conditions its optimized plan pushes down to tables.

The engine pushes a condition below the views of a changelog (state, facts) only if that does not
change the result, so a condition at a table may exclude slices. Plans show subqueries in
expressions only as text, so a query with such a subquery needs all slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, Expr

from odf_protocol.kartothek.keys import MalformedPredicate, UnsupportedColumn
from odf_protocol.kartothek.predicates import Op, Predicate, Term, check_predicate, is_prunable
from odf_storage.datasets.kartothek.own_index import own_slice_indices
from odf_storage.datasets.pruning.bounds import (
    SliceIndex,
    bounds_indices,
    columns_of,
    slices_to_open,
)
from odf_storage.datasets.query.messages import QueryTable

from ..engines.port.query_size import columns_of as table_columns
from .offsets import end_of_table

MAX_CONJUNCTIONS = 64
"""Limit of a predicate's conjunctions; a longer condition restricts nothing."""
_OPERATORS = {
    "=": Op.EQUAL,
    "<": Op.LESS,
    "<=": Op.LESS_EQUAL,
    ">": Op.GREATER,
    ">=": Op.GREATER_EQUAL,
}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_UNORDERED = frozenset({Op.EQUAL, Op.IN})
"""Operators whose disjunction is a list."""


def predicate_of(condition: Expr, schema: pa.Schema) -> Predicate | None:
    """Return a predicate that holds for every row for which the condition holds; None if an index
    cannot answer it."""
    kind = condition.variant_name()
    if kind == "InList" and not condition.to_variant().negated():
        tested, *listed = condition.rex_call_operands()
        return _term(tested, Op.IN, listed, schema)
    if kind != "BinaryExpr":
        return None
    operator = condition.rex_call_operator()
    left, right = condition.rex_call_operands()
    if operator == "AND":
        return both(predicate_of(left, schema), predicate_of(right, schema))
    if operator == "OR":
        return _either(predicate_of(left, schema), predicate_of(right, schema))
    if operator not in _OPERATORS:
        return None
    if left.variant_name() == "Literal":
        left, right, operator = right, left, _MIRRORED[operator]
    return _term(left, _OPERATORS[operator], [right], schema)


def both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    """Return the conjunction of two predicates; if that is too long, only the shorter one."""
    if one is None or other is None:
        return other if one is None else one
    if len(one) * len(other) > MAX_CONJUNCTIONS:
        return min(one, other, key=len)
    return [[*first, *second] for first in one for second in other]


def _either(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    if one is None or other is None:
        return None
    joined = _listed(one, other)
    if joined is None:
        joined = [*one, *other]
    return joined if len(joined) <= MAX_CONJUNCTIONS else None


def _listed(one: Predicate, other: Predicate) -> Predicate | None:
    """Return `a = 1 OR a = 2` as `a IN (1, 2)`, which takes a single lookup in an index."""
    terms = [term for terms in (*one, *other) for term in terms]
    if len(one) != 1 or len(other) != 1 or len(terms) != 2:
        return None
    if terms[0].column != terms[1].column or not _UNORDERED.issuperset(t.op for t in terms):
        return None
    values = [v for t in terms for v in (t.value if t.op is Op.IN else [t.value])]
    return [[Term(terms[0].column, Op.IN, values)]]


def _term(column: Expr, op: Op, literals: list[Expr], schema: pa.Schema) -> Predicate | None:
    """Return the comparison of a column with values of its own kind, or None."""
    values = [_value(each) for each in literals]
    if column.variant_name() != "Column" or not values or None in values:
        return None
    name = column.to_variant().name()
    term = Term(name, op, values if op is Op.IN else values[0])
    try:
        check_predicate([[term]], schema)
        return [[term]] if is_prunable(term, schema.field(name).type) else None
    except (MalformedPredicate, UnsupportedColumn):
        return None


def _value(expression: Expr) -> pa.Scalar | None:
    """Return the value of a literal; None for null, and for types that the library does not
    return."""
    if expression.variant_name() != "Literal":
        return None
    try:
        value = expression.python_value()
    except NotImplementedError:
        return None
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    return scalar if scalar.is_valid else None


_SUBQUERY = "Subquery:"
OpenIndex = Callable[[int, str], BinaryIO | None]
"""Opens a file of the index of the table with this number; None if there is none."""


def needed(
    result: DataFrame, tables: Sequence[QueryTable], names: Mapping[str, int], open_index: OpenIndex
) -> dict[int, list[int]]:
    """Return, by number of the table, the numbers of the slices that may have rows of the
    result."""
    plan = result.optimized_logical_plan()
    if any(line.strip() == _SUBQUERY for line in plan.display_indent().splitlines()):
        return {number: list(range(len(table.slices))) for number, table in enumerate(tables)}
    wanted: dict[int, list[Predicate | None]] = {}
    ends: dict[int, set[int]] = {}
    nodes: list[Any] = [plan]
    while nodes:
        node = nodes.pop()
        end = end_of_table(node, tables, names)
        if end is not None:
            ends.setdefault(end.table, set()).update(end.slices)
            continue
        nodes.extend(node.inputs())
        variant = node.to_variant()
        if type(variant).__name__ == "TableScan" and variant.table_name() in names:
            number = names[variant.table_name()]
            schema = table_columns(tables[number])
            found = [predicate_of(Expr(each), schema) for each in variant.filters()]
            wanted.setdefault(number, []).append(reduce(both, found, None))
    return {
        number: sorted(
            ends.get(number, set()).union(
                _slices(tables[number], wanted.get(number, ()), partial(open_index, number))
            )
        )
        for number in wanted.keys() | ends.keys()
    }


def _slices(
    table: QueryTable,
    predicates: Sequence[Predicate | None],
    open_index: Callable[[str], BinaryIO | None],
) -> list[int]:
    """Return the slices that any scan of the table needs."""
    count, schema = len(table.slices), table_columns(table)
    if not count or None in predicates:
        return list(range(count))
    asked = [terms for predicate in predicates for terms in predicate or ()]
    intervals = [(each.start, each.end) for each in table.slices]
    indices: list[SliceIndex] = [
        *bounds_indices(columns_of(asked), schema, table.bounds, table.offset, intervals),
        *own_slice_indices(open_index, table.index, schema),
    ]
    return [int(at) for at in np.flatnonzero(slices_to_open(count, asked, schema, indices))]
