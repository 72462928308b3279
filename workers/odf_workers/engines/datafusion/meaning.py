"""Give a plan the meaning of SQL where the engine has another: whole numbers do not wrap around,
-0.0 is 0.0, NaN is one value, above all numbers, and times are compared with all their digits.

The engine computes `INT * INT` and `sum(BIGINT)` modulo a power of two, and compares floats bit by
bit. No setting changes that, and its Python interface takes no rule for the analyser, so this
module rewrites plans in their serialised form (`plan_messages.py`):

- whole numbers are added, subtracted and multiplied in a wider type, and cast back, which fails for
  a number that does not fit; sums are computed in decimals that hold any sum;
- floats are normalised where they are compared, grouped, sorted or joined. Everywhere else their
  bits stay as they are, so that a column that is only passed on has the bits of its input;
- times of several units are compared and joined at the finest of them (`time_units.py`).

A plan without such parts stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext, col
from datafusion.plan import LogicalPlan

from odf_protocol.flight_sql import bytes_field, fields
from odf_protocol.sql_text import quoted_name

from .plan_messages import (
    AGGREGATE,
    AGGREGATE_CALL,
    ALIAS,
    BETWEEN,
    BINARY,
    CALL,
    CASE,
    CASE_OF,
    CAST,
    COLUMN,
    CUBE,
    DISTINCT,
    DISTINCT_CALL,
    DISTINCT_ON,
    EXPRESSIONS,
    GROUP_KEYS,
    GROUPING_SETS,
    IN_LIST,
    JOIN,
    JOIN_CONSTRAINT,
    JOIN_FILTER,
    JOIN_LEFT,
    JOIN_RIGHT,
    LITERAL,
    NODES,
    NOT,
    ONE_ROW,
    PLAN,
    PROJECTION,
    ROLLUP,
    SORT,
    SUBQUERY,
    WINDOW,
    WINDOW_CALL,
    CannotRebuild,
    Path,
    aliased,
    binary,
    cast,
    children,
    joined,
    name_of,
    normalised,
    opened,
    projected,
    relation_of,
    remade,
    with_clear_names,
    without,
)
from .time_units import DIGITS, MIRRORED, compared_with_cut, cut_text, finer_types

_CUTS_TIMES = re.compile(r"arrow_cast\(|AS Timestamp\((?:s|ms|us)\b")
"""Parts of a plan, as a text, by which an author cuts times."""
_COMPARISONS = frozenset(
    {"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "IsDistinctFrom", "IsNotDistinctFrom"}
)
_WRAPPING = frozenset({"Plus", "Minus", "Multiply"})
_COMPARED: dict[int, Sequence[Path]] = {
    BETWEEN: ((1,), (3,), (4,)),
    CASE: (CASE_OF, (2, 1)),
    IN_LIST: ((1,), (2,)),
    WINDOW_CALL: ((5,), (6, 1)),
    AGGREGATE_CALL: ((4, 1),),
}
"""Which parts of an expression are compared, by its kind."""
_MEETING = (BETWEEN, CASE, IN_LIST)
"""Expressions whose compared parts are compared with each other."""
_LISTED = {
    BETWEEN: ("And", 2, (("GtEq", (3,)), ("LtEq", (4,)))),
    IN_LIST: ("Or", 3, (("Eq", (2,)),)),
}
"""How the first part is compared with others: what joins the comparisons, the field that negates
them, and the operators by the paths of the others."""
_SETS = (GROUPING_SETS, CUBE, ROLLUP)
_CALLS = {CALL: 1, AGGREGATE_CALL: 1, WINDOW_CALL: 3}
"""The field with the name of the function, by the kind of call."""
_ARGUMENTS: dict[int, Path] = {CALL: (2,), AGGREGATE_CALL: (2,), WINDOW_CALL: (4,)}
_COMPARING = frozenset(
    {"approx_distinct", "approx_median", "approx_percentile_cont", "greatest", "least", "max"}
    | {"median", "min", "nullif", "percentile_cont", "quantile_cont"}
)
"""Functions that compare their arguments."""
_WHOLE = pa.decimal128(20, 0)
"""Holds all numbers of 64 bits; the engine computes with 128 bits, which hold their products, and
the sums of as many as a dataset may have."""
_WIDE_DIGITS = 28
"""Sums of decimals with more digits may exceed 128 bits."""


def as_sql_means(context: SessionContext, result: DataFrame) -> DataFrame:
    """Return the frame with the same columns, whose values are those of SQL or an error.

    A plan that the engine cannot serialise is optimised first, which leaves fewer kinds of parts.

    Raises:
        CannotRebuild: the plan has a part that this module does not know.
    """
    plan = result.logical_plan()
    try:
        return _rewritten(context, plan, result, uncuts=False)
    except CannotRebuild:
        uncuts = _CUTS_TIMES.search(plan.display_indent()) is None
        return _rewritten(context, result.optimized_logical_plan(), result, uncuts=uncuts)


def _rewritten(context: SessionContext, plan: Any, result: DataFrame, *, uncuts: bool) -> DataFrame:
    given = serialised(plan)
    made = _Rewriting(context, uncuts=uncuts).node(given)
    return result if made == given else _frame(context, made)


def serialised(plan: Any) -> bytes:
    try:
        made = bytes(plan.to_bytes())
    except Exception as bad:  # the library has no specific error
        raise CannotRebuild(str(bad)) from None
    return with_clear_names(made)


def _frame(context: SessionContext, node: bytes) -> DataFrame:
    try:
        return context.create_dataframe_from_logical_plan(LogicalPlan.from_bytes(context, node))
    except Exception as bad:  # the library has no specific error
        raise CannotRebuild(str(bad)) from None


class _Rewriting:
    """Rewrites nodes from the leaves up."""

    def __init__(self, context: SessionContext, *, uncuts: bool) -> None:
        self._context = context
        self._uncuts = uncuts
        """Whether casts of times to coarser units are those of the optimiser, not of the author."""
        self._types: dict[bytes, pa.DataType] = {}
        """Types of the expressions of the node at hand."""
        self._keys_as_fine: dict[bytes, pa.DataType] = {}
        """Types that keys of the join at hand are cast to."""

    def node(self, node: bytes) -> bytes:
        """Return the node with the same columns."""
        kind, content = opened(node)
        shape = NODES[kind]
        below = [(number,) for number in shape.below]
        content = remade(content, below, lambda each, _: self.node(each))
        if kind == DISTINCT:
            return self._distinct(content)
        self._types = self._typed(kind, content)
        self._keys_as_fine = self._finer_keys(content) if kind == JOIN else {}
        made = remade(content, shape.expressions, lambda each, at: self._part(kind, each, at))
        if made == content:
            return bytes_field(kind, content)
        if kind == JOIN:  # the keys of USING are columns, those of ON are expressions
            made = without(made, JOIN_CONSTRAINT)
        if kind not in (AGGREGATE, WINDOW):
            return bytes_field(kind, made)
        return self._with_types_of(bytes_field(kind, content), bytes_field(kind, made))

    def _part(self, kind: int, expression: bytes, at: Path) -> bytes:
        """Return an expression of a node of this kind."""
        is_key = (kind == JOIN and at != JOIN_FILTER) or (kind == DISTINCT_ON and at != (2,))
        if is_key or kind == SORT:
            key = self._uncut(expression)
            return self._cast_to(self._compared(key), self._keys_as_fine.get(key))
        if kind == AGGREGATE and at == GROUP_KEYS:
            return self._keys(expression)
        if kind in (PROJECTION, AGGREGATE, WINDOW):
            return self._column(expression, self._expression)
        return self._expression(expression)

    def _with_types_of(self, given: bytes, made: bytes) -> bytes:
        """Return the node `made` with its wide columns cast to the types of the node `given`."""
        wanted, frame = _frame(self._context, given).schema(), _frame(self._context, made)
        for field, found in zip(wanted, frame.schema(), strict=True):
            if field.type != found.type:
                column = col(quoted_name(found.name)).cast(field.type)
                frame = frame.with_column(found.name, column)
        return serialised(frame.logical_plan())

    def _distinct(self, content: bytes) -> bytes:
        """Return DISTINCT with normalised floats below it."""
        (below,) = children(content, [(1,)])
        frame = _frame(self._context, below)
        schema = frame.schema()
        floats = [field for field in schema if pa.types.is_floating(field.type)]
        if not floats:
            return bytes_field(DISTINCT, content)
        kind, inner = opened(below)
        if kind == PROJECTION:
            self._types = self._typed(kind, inner)
            made = remade(inner, NODES[kind].expressions, lambda each, _: self._keys(each))
            return bytes_field(DISTINCT, bytes_field(1, bytes_field(kind, made)))
        if len(set(schema.names)) < len(schema.names):
            raise CannotRebuild("DISTINCT of columns with the same name")
        for field in floats:
            key = cast(normalised(col(quoted_name(field.name)).to_bytes()), field.type)
            frame = frame.with_column(field.name, Expr.from_bytes(key, self._context))
        return bytes_field(DISTINCT, bytes_field(1, serialised(frame.logical_plan())))

    def _typed(self, kind: int, content: bytes) -> dict[bytes, pa.DataType]:
        """Return the types of the expressions of a node, and of all that they consist of."""
        found: dict[bytes, pa.DataType] = {}
        below = children(content, [(number,) for number in NODES[kind].below])
        for path in NODES[kind].expressions:
            asked = dict.fromkeys(
                part for each in children(content, [path]) for part in _with_parts(each)
            )
            if not asked:
                continue
            if kind == JOIN:
                rows = joined(*below) if path == JOIN_FILTER else below[path != JOIN_LEFT]
            else:
                rows = below[0] if below else ONE_ROW
            named = [aliased(each, f"t{at}") for at, each in enumerate(asked)]
            types = _frame(self._context, projected(rows, named)).schema().types
            found |= zip(asked, types, strict=True)
        return found

    def _keys(self, expression: bytes) -> bytes:
        """Return a column by which rows are grouped, with its name and its type."""
        kind, content = opened(expression)
        if kind in _SETS:
            made = remade(content, EXPRESSIONS[kind], lambda each, _: self._keys(each))
            return bytes_field(kind, made)
        return self._column(expression, self._key)

    def _key(self, expression: bytes) -> bytes:
        made = self._compared(expression)
        return cast(made, self._types[expression]) if self._is_float(expression) else made

    def _column(self, expression: bytes, renewed: Callable[[bytes], bytes]) -> bytes:
        """Return a renewed column of a node under its name."""
        kind, content = opened(expression)
        given = children(content, [(1,)])[0] if kind == ALIAS else expression
        made = renewed(given)
        if made == given:
            return expression
        if kind == ALIAS:
            return bytes_field(ALIAS, remade(content, [(1,)], lambda *_: made))
        if kind == COLUMN:
            return aliased(made, name_of(content), relation_of(content))
        return aliased(made, str(Expr.from_bytes(expression, self._context).schema_name()))

    def _expression(self, expression: bytes) -> bytes:
        """Return the expression with the same type, except for calls of aggregates."""
        kind, content = opened(expression)
        if kind == BINARY:
            return self._binary(expression)
        if kind == SUBQUERY:
            inner = remade(content, [PLAN], lambda each, _: self._inner(each))
            return bytes_field(kind, inner)
        if not EXPRESSIONS[kind]:
            return expression
        if kind in _LISTED and (made := self._one_by_one(kind, content)) is not None:
            return made
        compared = _compared_parts(kind, content)
        finer = self._finer(children(content, compared)) if kind in _MEETING else {}
        sums = kind in _CALLS and name_of(content, _CALLS[kind]) == "sum"

        def part(each: bytes, at: Path) -> bytes:
            if sums and at == _ARGUMENTS[kind]:
                return self._summed(each)
            if at in compared:
                return self._cast_to(self._compared(each), finer.get(each))
            return self._expression(each)

        made = bytes_field(kind, remade(content, EXPRESSIONS[kind], part))
        if kind == CALL and made != expression and self._is_float(expression):
            return cast(made, self._types[expression])
        return made

    def _binary(self, expression: bytes) -> bytes:
        """Return an operation, whose operands may be more than two: `a + b + c`."""
        _, content = opened(expression)
        operands, operator = children(content, [(1,)]), name_of(content, 3)
        if operator in _COMPARISONS:
            return self._comparison(operator, operands)
        if operator not in _WRAPPING or not pa.types.is_integer(self._types[expression]):
            return binary(operator, *map(self._expression, operands))
        made = self._expression(operands[0])
        for at, operand in enumerate(operands[1:], start=2):
            kind = self._types[binary(operator, *operands[:at])]
            wide = pa.int64() if kind.bit_width < 64 else _WHOLE
            both = (cast(made, wide), cast(self._expression(operand), wide))
            made = cast(binary(operator, *both), kind)
        return made

    def _inner(self, plan: bytes) -> bytes:
        return _Rewriting(self._context, uncuts=self._uncuts).node(plan)

    def _uncut(self, part: bytes) -> bytes:
        """Return a compared part without the cast by which the optimiser cuts its digits."""
        kind, content = opened(part)
        if not self._uncuts or kind != CAST:
            return part
        (given,) = children(content, [(1,)])
        fine: Any = self._types.get(given)
        cut: Any = self._types.get(part)
        both = _is_time(fine) and _is_time(cut) and _has_column(given)
        return given if both and DIGITS[fine.unit] > DIGITS[cut.unit] else part

    def _comparison(self, operator: str, operands: Sequence[bytes]) -> bytes:
        if len(operands) == 2 and (made := self._with_cut_text(operator, *operands)) is not None:
            return made
        operands = [self._uncut(each) for each in operands]
        finer = self._finer(operands)
        return binary(operator, *(self._cast_to(self._compared(o), finer.get(o)) for o in operands))

    def _with_cut_text(self, operator: str, left: bytes, right: bytes) -> bytes | None:
        """Return the comparison of a time with a text that has more digits; None for any other."""
        for time, text, said in (
            (left, right, operator),
            (right, left, MIRRORED.get(operator, operator)),
        ):
            kind: Any = self._types.get(time)
            other: Any = self._types.get(text)
            if not _is_time(kind) or opened(time)[0] in (LITERAL, CAST):
                continue
            if _is_time(other) and DIGITS[other.unit] <= DIGITS[kind.unit]:
                continue  # the author cut it
            if (cut := cut_text(text, kind.unit)) is not None:
                return compared_with_cut(said, self._expression(time), cut)
        return None

    def _one_by_one(self, kind: int, content: bytes) -> bytes | None:
        """Return BETWEEN or IN as comparisons, if a text in it has more digits than the time."""
        joint, negation, others = _LISTED[kind]
        (first,) = children(content, [(1,)])
        pairs = [(said, each) for said, at in others for each in children(content, [at])]
        cut = [self._with_cut_text(said, first, each) for said, each in pairs]
        if not any(cut):
            return None
        all_made = [
            made or self._comparison(said, (first, each))
            for made, (said, each) in zip(cut, pairs, strict=True)
        ]
        made = all_made[0] if len(all_made) == 1 else binary(joint, *all_made)
        is_negated = any(number == negation and value for number, value in fields(content))
        return bytes_field(NOT, bytes_field(1, made)) if is_negated else made

    def _finer(self, parts: Sequence[bytes]) -> dict[bytes, pa.DataType]:
        """Return the types for times that are compared with finer ones. Constants are left as they
        are: the engine casts them to the type of the column."""
        times = {each: kind for each in parts if _is_time(kind := self._types.get(each))}
        return finer_types({each: kind for each, kind in times.items() if _has_column(each)})

    def _finer_keys(self, join: bytes) -> dict[bytes, pa.DataType]:
        found: dict[bytes, pa.DataType] = {}
        for pair in zip(children(join, [JOIN_LEFT]), children(join, [JOIN_RIGHT]), strict=True):
            for each, kind in self._finer([self._uncut(key) for key in pair]).items():
                known = found.setdefault(each, kind)
                found[each] = max(kind, known, key=lambda one: DIGITS[one.unit])
        return found

    def _cast_to(self, expression: bytes, kind: pa.DataType | None) -> bytes:
        if kind is None:
            return expression
        return bytes(Expr.from_bytes(expression, self._context).cast(kind).to_bytes())

    def _compared(self, expression: bytes) -> bytes:
        made = self._expression(expression)
        return normalised(made) if self._is_float(expression) else made

    def _summed(self, expression: bytes) -> bytes:
        """Return the argument of a sum in a type that holds the sum of any number of rows."""
        made, kind = self._expression(expression), self._types[expression]
        if pa.types.is_integer(kind) and kind.bit_width == 64:  # others are summed in 64 bits
            return cast(made, _WHOLE)
        if pa.types.is_decimal128(kind) and kind.precision > _WIDE_DIGITS:
            return cast(made, pa.decimal256(76, kind.scale))
        return made

    def _is_float(self, expression: bytes) -> bool:
        found = self._types.get(expression)
        return found is not None and pa.types.is_floating(found)


def _is_time(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_timestamp(kind)


def _has_column(expression: bytes) -> bool:
    return any(opened(each)[0] == COLUMN for each in _with_parts(expression))


def _compared_parts(kind: int, content: bytes) -> Sequence[Path]:
    """Return the paths of the parts that an expression compares with each other."""
    if kind == CASE and not children(content, [CASE_OF]):
        return ()
    compared = _COMPARED.get(kind, ())
    if kind in _CALLS:
        name, is_distinct = name_of(content, _CALLS[kind]), False
        if kind == AGGREGATE_CALL:
            is_distinct = any(number == DISTINCT_CALL for number, _ in fields(content))
        if is_distinct or name in _COMPARING:
            return (*compared, _ARGUMENTS[kind])
    return compared


def _with_parts(expression: bytes) -> Iterator[bytes]:
    """Yield the expression and its parts, but those that have no type of their own."""
    kind, content = opened(expression)
    parts = children(content, EXPRESSIONS[kind])
    for each in parts:
        yield from _with_parts(each)
    if kind == BINARY:
        operator = name_of(content, 3)
        yield from (binary(operator, *parts[:at]) for at in range(2, len(parts)))
    if kind not in (*_SETS, ALIAS, AGGREGATE_CALL, WINDOW_CALL):
        yield expression
