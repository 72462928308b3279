"""Convert conditions of a plan to predicates on columns, as far as they can exclude slices.

Conditions that are not understood restrict nothing. Source: Kartothek facts, "When pruning is
sound".
"""

from __future__ import annotations

import pyarrow as pa
from datafusion import Expr

from odf_protocol.kartothek.errors import MalformedPredicate, UnsupportedColumn
from odf_protocol.kartothek.predicates import (
    Op,
    Predicate,
    Term,
    check_predicate,
    is_prunable,
)

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
