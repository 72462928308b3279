"""Predicates on rows: a disjunction of conjunctions of (column, operator, value).

Comparisons follow SQL: a comparison with null is never true. NaN equals NaN and is greater than
all numbers, and -0.0 equals 0.0, as on the engines. An index may exclude a partition only if its
values decide the predicate: it lists neither null nor NaN, and bounds of floats leave NaN out.
Source: Kartothek dataset format 4, "Predicates"; soundness: "When pruning is sound".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .errors import MalformedPredicate
from .types import kind_of


class Op(StrEnum):
    """Comparisons. An index cannot decide the last three."""

    EQUAL = "=="
    IN = "in"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    NOT_EQUAL = "!="
    NOT_IN = "not in"
    DISTINCT = "is distinct from"
    IS_NULL = "is null"
    IS_NOT_NULL = "is not null"


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison. `value` is a Python value, or an Arrow scalar that fits the column; for `in`
    and `not in` a list of them."""

    column: str
    op: Op
    value: Any = None


Predicate = Sequence[Sequence[Term]]
"""True for a row if all terms of at least one sequence are true."""

_INDEXED = frozenset(
    {Op.EQUAL, Op.IN, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL},
)
_NAN_PASSES = frozenset({Op.NOT_EQUAL, Op.GREATER, Op.GREATER_EQUAL})
"""Comparisons with a number that are true for NaN."""
_NAN_WITH_NAN = frozenset({Op.EQUAL, Op.LESS_EQUAL, Op.GREATER_EQUAL})
"""Comparisons with NaN that are true for NaN."""
_BELOW_NAN = frozenset({Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL})
"""Comparisons with NaN that are true for a number."""
_PLAIN: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQUAL: pc.equal,
    Op.NOT_EQUAL: pc.not_equal,
    Op.LESS: pc.less,
    Op.LESS_EQUAL: pc.less_equal,
    Op.GREATER: pc.greater,
    Op.GREATER_EQUAL: pc.greater_equal,
}
_ACCEPTED: dict[str, tuple[type, ...]] = {
    "null": (bool, int, float, str, bytes, date, datetime, Decimal),
    "bool": (bool,),
    "integer": (int,),
    "float": (int, float),
    "text": (str,),
    "binary": (bytes,),
    "date": (date,),
    "decimal": (int, Decimal),
    "timestamp": (datetime,),
    "timestamp with zone": (datetime,),
}


def check_predicate(predicate: Predicate, schema: pa.Schema) -> None:
    """Check that every term applies to rows of the schema. Raises `MalformedPredicate`."""
    for term in (term for terms in predicate for term in terms):
        if term.column not in schema.names:
            raise MalformedPredicate(f"there is no column {term.column[:100]!r}")
        _values(term, schema.field(term.column).type)


def mask_of(predicate: Predicate, columns: Callable[[str], pa.Array], rows: int) -> pa.Array:
    """Return for each row whether the predicate is true; without conjunctions it is false."""
    found = pa.array([False] * rows, pa.bool_())
    for terms in predicate:
        every = pa.array([True] * rows, pa.bool_())
        for term in terms:
            every = pc.and_(every, term_mask(term, columns(term.column)))
        found = pc.or_(found, every)
    return found


def term_mask(term: Term, column: pa.Array) -> pa.Array:
    """Return for each value whether the term is true, never null. Raises `MalformedPredicate`."""
    if pa.types.is_float16(column.type):  # Arrow cannot compare this type
        column = column.cast(pa.float32())
    values = _values(term, column.type)
    if term.op is Op.IS_NULL:
        return column.is_null()
    if term.op is Op.IS_NOT_NULL:
        return column.is_valid()
    if pa.types.is_null(column.type):  # Arrow cannot compare this type
        return pa.array([term.op is Op.DISTINCT and bool(values)] * len(column), pa.bool_())
    if term.op is Op.DISTINCT:
        if not values:
            return column.is_valid()
        return pc.fill_null(_compared(Op.NOT_EQUAL, column, values[0]), True)
    if term.op in (Op.IN, Op.NOT_IN):
        return _among(column, values, wanted=term.op is Op.IN)
    return pc.fill_null(_compared(term.op, column, values[0]), False)


def _compared(op: Op, column: pa.Array, value: pa.Scalar) -> pa.Array:
    """Compare values with one value; null for nulls."""
    plain = _PLAIN[op](column, value)
    if not pa.types.is_floating(column.type):
        return plain
    nan = pc.is_nan(column)
    if not pc.is_nan(value).as_py():
        return pc.if_else(nan, op in _NAN_PASSES, plain)
    return pc.if_else(nan, op in _NAN_WITH_NAN, op in _BELOW_NAN)


def _among(column: pa.Array, values: Sequence[pa.Scalar], *, wanted: bool) -> pa.Array:
    known = pa.array(values, column.type)
    if pa.types.is_floating(column.type):
        column, known = same_bits(column), same_bits(known)
    found = pc.is_in(column, value_set=known)
    return pc.and_(found if wanted else pc.invert(found), column.is_valid())


def same_bits(values: pa.Array) -> pa.Array:
    """Return a float column with equal bits for equal values: one NaN, no -0.0."""
    nan = pa.scalar(float("nan"), values.type)
    return pc.add(pc.if_else(pc.is_nan(values), nan, values), pa.scalar(0.0, values.type))


def is_prunable(term: Term, column_type: pa.DataType) -> bool:
    """Return whether an index can exclude partitions without a matching value. No index does so
    for floats, because bounds and lists of values leave NaN out."""
    return term.op in _INDEXED and kind_of(column_type) != "float"


def _values(term: Term, column_type: pa.DataType) -> list[pa.Scalar]:
    """Return the values that the term compares with; none for null. `MalformedPredicate`."""
    if term.op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return []
    if term.op is Op.DISTINCT and term.value is None:
        return []
    several = term.op in (Op.IN, Op.NOT_IN)
    if several and not isinstance(term.value, list | tuple | set | frozenset):
        raise MalformedPredicate(f"{term.op!s} compares {term.column!r} with a list of values")
    accepted = _ACCEPTED.get(kind_of(column_type), ())
    made = []
    for value in term.value if several else (term.value,):
        if isinstance(value, pa.Scalar):
            made.append(_fitted(term, value, column_type))
            continue
        is_misplaced = isinstance(value, bool) and bool not in accepted
        is_misplaced |= isinstance(value, datetime) and datetime not in accepted
        if not isinstance(value, accepted) or is_misplaced:
            raise _misfit(term, column_type)
        if pa.types.is_null(column_type):  # no value equals null
            made.append(pa.scalar(None))
            continue
        is_zoned = isinstance(value, datetime) and value.tzinfo is not None
        if is_zoned and column_type.tz is None:
            raise _misfit(term, column_type)
        try:
            made.append(pa.scalar(value, column_type))
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            raise _misfit(term, column_type) from None
    return made


def _fitted(term: Term, value: pa.Scalar, column_type: pa.DataType) -> pa.Scalar:
    """Convert the value to the type of the column. Raises `MalformedPredicate` on a misfit."""
    if not value.is_valid or kind_of(value.type) != kind_of(column_type):
        raise _misfit(term, column_type)
    try:
        return value.cast(column_type)
    except pa.ArrowException:
        raise _misfit(term, column_type) from None


def _misfit(term: Term, column_type: pa.DataType) -> MalformedPredicate:
    return MalformedPredicate(
        f"column {term.column[:100]!r} of type {column_type} is not compared with "
        f"{repr(term.value)[:100]}"
    )
