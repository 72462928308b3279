"""Check DataFusion's analysed plan of a query against the allow-lists; remove other functions.

The check visits the plan node by node, including subqueries. Forbidden functions are removed from
the context, so that no spelling of a call finds them.

Allow-lists of plan nodes, expressions and functions for queries on DataFusion.

Anything not listed is refused, including what a later version of the engine adds. The lists are
the same for preprocessing and transforms, but a transform may not use parts whose rows depend on
several rows, or functions whose values depend on the moment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from datafusion import DataFrame, Expr, SessionContext

from ..port.port import InvalidQuery, not_incremental


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


INPUTS = "?table?"
"""Name that plans give to the files of the inputs; a plan with any other table is refused."""
GENERATORS = ("generate_series", "range")
"""Table functions that generate rows without input. Limits of time and memory bound how many."""

NODES: Mapping[str, str | None] = {
    "Filter": None,
    "Projection": None,
    "Sort": None,
    "SubqueryAlias": None,
    "TableScan": None,
    "Union": None,
    "Unnest": None,
    "Aggregate": "an aggregate",
    "Distinct": "DISTINCT or UNION without ALL",
    "EmptyRelation": "rows that come from no input",
    "Join": "a join",
    "Limit": "LIMIT",
    "RecursiveQuery": "a recursive query",
    "Subquery": "a subquery",
    "Values": "rows that come from no input",
    "WindowExpr": "a window function",
}
"""Allowed plan nodes. A node with a text is refused in a transform, because its rows depend on
several input rows; the text names the node in the error message."""
LINES = re.compile(
    r"\s*(?:(?:Projection|Filter|Sort|SubqueryAlias|Unnest|Aggregate|Distinct|DistinctOn|Limit|"
    r"EmptyRelation|RecursiveQuery|Subquery|Values|WindowAggr)(?::|$)|Union$|"
    r"(?:Inner|Left|Right|Full|Cross|LeftSemi|RightSemi|LeftAnti|RightAnti|LeftMark|RightMark) "
    r"Join:|TableScan: (?P<table>.*?)(?= projection=| partial_filters=| full_filters=| fetch=|$))"
)
"""Matches a line of a plan's text that begins with one of these nodes."""

OPERANDS = frozenset(
    {
        "Between",
        "BinaryExpr",
        "Case",
        "Cast",
        "InList",
        "InSubquery",
        "IsFalse",
        "IsNotFalse",
        "IsNotNull",
        "IsNotTrue",
        "IsNotUnknown",
        "IsNull",
        "IsTrue",
        "IsUnknown",
        "Like",
        "Negative",
        "Not",
        "RLike",
        "ScalarFunction",
        "TryCast",
    }
)
"""Expressions whose operands are checked as well."""
LEAVES = frozenset(
    {
        "AggregateFunction",
        "Column",
        "Exists",
        "GroupingSet",
        "Literal",
        "Outer",
        "ScalarSubquery",
        "SetComparison",
        "Unnest",
        "WindowFunction",
    }
)
"""Expressions whose operands are not checked. Either they contain no function, or the planner
rejects a forbidden one because `forget_functions` removed its name."""

FUNCTIONS = _words(
    """
    abs acos acosh array_any_value array_append array_cat array_compact array_concat array_contains
    array_dims array_distance array_distinct array_element array_empty array_except array_extract
    array_has array_has_all array_has_any array_indexof array_intersect array_join array_length
    array_max array_min array_ndims array_normalize array_pop_back array_pop_front array_position
    array_positions array_prepend array_push_back array_push_front array_remove array_remove_all
    array_remove_n array_repeat array_replace array_replace_all array_replace_n array_resize
    array_reverse array_slice array_sort array_to_string array_union arrays_overlap arrays_zip
    arrow_cast arrow_field arrow_metadata arrow_try_cast arrow_typeof ascii asin asinh atan atan2
    atanh bit_length btrim cardinality cast_to_type cbrt ceil char_length character_length chr
    coalesce concat concat_ws contains cos cosh cosine_distance cot date_bin date_format date_part
    date_trunc datepart datetrunc decode degrees digest dot_product element_at empty encode
    ends_with exp factorial find_in_set flatten floor from_unixtime gcd generate_series get_field
    greatest ifnull initcap inner_product instr isnan iszero lcm least left length levenshtein
    list_any_value list_append list_cat list_compact list_concat list_contains list_dims
    list_distance list_distinct list_element list_empty list_except list_extract list_has
    list_has_all list_has_any list_indexof list_intersect list_join list_length list_max list_ndims
    list_normalize list_pop_back list_pop_front list_position list_positions list_prepend
    list_push_back list_push_front list_remove list_remove_all list_remove_n list_repeat
    list_replace list_replace_all list_replace_n list_resize list_reverse list_slice list_sort
    list_to_string list_union list_zip ln log log10 log2 lower lpad ltrim make_array make_date
    make_list make_time map map_entries map_extract map_keys map_values md5 named_struct nanvl
    nullif nvl nvl2 octet_length overlay pi position pow power radians range regexp_count
    regexp_instr regexp_like regexp_match regexp_replace repeat replace reverse right round row
    rpad rtrim sha224 sha256 sha384 sha512 signum sin sinh split_part sqrt starts_with
    string_to_array string_to_list strpos struct substr substr_index substring substring_index tan
    tanh to_char to_date to_hex to_local_time to_time to_timestamp to_timestamp_micros
    to_timestamp_millis to_timestamp_nanos to_timestamp_seconds to_unixtime translate trim trunc
    try_cast_to_type union_extract union_tag upper
    """
)
"""Functions of one row. The memory limit of the process bounds what they build; their arguments
are not limited."""
AGGREGATES = _words(
    """
    approx_distinct approx_median approx_percentile_cont approx_percentile_cont_with_weight
    array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar covar_pop covar_samp
    first_value grouping last_value max mean median min nth_value percentile_cont quantile_cont
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    stddev stddev_pop stddev_samp string_agg sum var var_pop var_population var_samp var_sample
    """
)
WINDOWS = _words(
    """
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank
    row_number
    """
)
MOMENTS = _words(
    """
    current_date current_time current_timestamp gen_random_uuid now rand random today uuid uuidv4
    version
    """
)
"""Functions whose value depends on when or where they are computed. Transforms may not use them."""
REFUSED = frozenset({"with_metadata"})
"""Functions that the engine has and queries may not use: `with_metadata` would change the schema
of a dataset without its author's manifest."""


_QUOTED = re.compile(r"(?s)'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)")
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
