"""Check DataFusion's analysed plan of a query against the allow-lists; remove other functions.

The check visits the plan node by node, including subqueries. Forbidden functions are removed from
the context, so that no spelling of a call finds them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from datafusion import DataFrame, Expr, SessionContext

from ..port.port import InvalidQuery, not_incremental
from .allowed import (
    AGGREGATES,
    FUNCTIONS,
    GENERATORS,
    INPUTS,
    LEAVES,
    LINES,
    MOMENTS,
    NODES,
    OPERANDS,
    WINDOWS,
)

_QUOTED = re.compile(r"(?s)'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|`[^`]*`|--[^\n]*|/\*.*?\*/")
_PASSED_OVER = re.compile(r"(?i)\b(TABLESAMPLE|PREWHERE|CONNECT\s+BY)\b")
"""Words that the parser accepts and the planner ignores, so that no plan shows them."""


def check_words(query: str) -> None:
    """Raise `InvalidQuery` for words that the engine would silently ignore."""
    found = _PASSED_OVER.search(_QUOTED.sub(" ", query))
    if found:
        raise InvalidQuery(f"{found[1].upper()} is not available in queries")


def forget_functions(
    context: SessionContext, *, iterates: bool, moments: bool | None = None
) -> None:
    """Remove all functions from the context but the allowed ones. `moments` says whether functions
    whose value depends on the moment are allowed; by default they are, except in iterations."""
    with_moments = not iterates if moments is None else moments
    known_moments = MOMENTS if with_moments else frozenset()
    for known, allowed, forget in (
        (context.udfs(), FUNCTIONS | known_moments, context.deregister_udf),
        (context.udafs(), AGGREGATES, context.deregister_udaf),
        (context.udwfs(), WINDOWS, context.deregister_udwf),
    ):
        for name in set(known) - allowed:
            forget(name)
    if iterates:
        for name in GENERATORS:
            context.deregister_udtf(name)


@dataclass(slots=True)
class _Parts:
    """The parts of a plan, by name."""

    nodes: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    recursive: set[str] = field(default_factory=set)
    """Names by which recursive queries refer to themselves."""


def judge(
    result: DataFrame, *, iterates: bool, tables: Set[str] = frozenset({INPUTS})
) -> frozenset[str]:
    """Check all parts of a query, and return the tables that it reads. `tables` are those that it
    may read.

    Raises:
        InvalidQuery: the query has a part that is not allowed, or that cannot be inspected.
        NotIncremental: `iterates` is set, and a row of the result may depend on several input rows.
    """
    plan = result.logical_plan()
    parts = _Parts()
    _look_through(plan, parts)
    for kind in parts.nodes:
        if kind not in NODES:
            raise not_available(kind)
        if iterates and (called := NODES[kind]) is not None:
            raise not_incremental(called)
    lines = plan.display_indent().splitlines()
    if any(line.strip() == "Subquery:" for line in lines):
        if iterates:
            raise not_incremental("a subquery")
        parts.tables |= _tables(lines)
    made = frozenset() if iterates else {f"{name}()" for name in GENERATORS}
    if unknown := parts.tables - tables - parts.recursive - made:
        raise not_available(f"the table {min(unknown)}")
    if unknown := parts.functions - FUNCTIONS - (frozenset() if iterates else MOMENTS):
        raise not_available(f"the function {min(unknown)}")
    return frozenset(parts.tables)


def not_available(what: str) -> InvalidQuery:
    return InvalidQuery(f"{what} is not available in queries")


def _look_through(plan: Any, parts: _Parts) -> None:
    nodes: list[Any] = [plan]
    while nodes:
        node = nodes.pop()
        try:
            variant = node.to_variant()
        except Exception:  # the library has no class for this node, and no specific error
            raise not_available("a part of this query") from None
        kind = type(variant).__name__
        parts.nodes.append(kind)
        if kind == "TableScan":
            parts.tables.add(variant.table_name())
        if kind == "RecursiveQuery":
            parts.recursive.add(variant.name())
        nodes.extend(node.inputs())
        for expression in _expressions(kind, variant):
            _look_into(expression, parts)


def _expressions(kind: str, variant: Any) -> Sequence[Any]:
    """Return the expressions of a node, as far as they may contain other expressions."""
    match kind:
        case "Projection":
            return list(variant.projections())
        case "Filter":
            return [variant.predicate()]
        case "Aggregate":
            return [*variant.group_by_exprs(), *variant.aggregate_exprs()]
        case "Sort":
            return [each.expr() for each in variant.sort_exprs()]
        case "Join":
            filters = [variant.filter()] if variant.filter() is not None else []
            return [*filters, *(side for pair in variant.on() for side in pair)]
        case "Values":
            return [cell for row in variant.values() for cell in row]
    return ()


def _look_into(expression: Any, parts: _Parts) -> None:
    left = [expression if isinstance(expression, Expr) else Expr(expression)]
    while left:
        each = left.pop()
        kind = each.variant_name()
        if kind == "Alias":
            left.append(Expr(each.to_variant().expr()))
            continue
        if kind == "Placeholder":
            raise InvalidQuery("queries have no parameters: write the value where `?` or `$1` is")
        if kind not in OPERANDS and kind not in LEAVES:
            raise not_available(f"the expression {kind}")
        if kind == "ScalarFunction":
            parts.functions.add(each.rex_call_operator())
        if kind in OPERANDS:
            left.extend(each.rex_call_operands())


def _tables(lines: Sequence[str]) -> set[str]:
    """Return the tables of a plan, including those of subqueries, which only its text shows.

    Each node begins a line. A string value with a line break may begin a line as well: then the
    query is refused, or the value adds a table name. It cannot hide a table.
    """
    found = [LINES.match(line) for line in lines]
    for line, match in zip(lines, found, strict=True):
        if match is None:
            raise not_available(f"a query with a subquery and {line.strip()[:40]!r}")
    return {match["table"] for match in found if match is not None and match["table"] is not None}
