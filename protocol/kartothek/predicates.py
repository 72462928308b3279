"""Predicates on rows: any of several conjunctions of (column, operator, value).

Comparisons follow SQL: a null compares to nothing. A partition may be left out by an index only
where the index says all: it lists no null and no NaN.
Source: Kartothek dataset format 4, "Predicates"; soundness: "When pruning is sound".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .errors import MalformedPredicate
from .types import kind_of


class Op(StrEnum):
    """Comparisons. The last three are never answered by an index."""

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
    """One comparison. `value` is a value of Python, or an Arrow scalar that fits the column; a list
    of them for `in` and `not in`."""

    column: str
    op: Op
    value: Any = None


Predicate = Sequence[Sequence[Term]]
"""True where all terms of one of the sequences are."""

_INDEXED = frozenset(
    {Op.EQUAL, Op.IN, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL},
)
_HIGHEST = frozenset({Op.GREATER, Op.GREATER_EQUAL})
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
    """Whether every term can be asked of rows of the schema. Raises `MalformedPredicate`."""
    for term in (term for terms in predicate for term in terms):
        if term.column not in schema.names:
            raise MalformedPredicate(f"there is no column {term.column[:100]!r}")
        _values(term, schema.field(term.column).type)


def mask_of(predicate: Predicate, columns: Callable[[str], pa.Array], rows: int) -> pa.Array:
    """Which of the rows the predicate is true of; no conjunction at all is false."""
    found = pa.array([False] * rows, pa.bool_())
    for terms in predicate:
        every = pa.array([True] * rows, pa.bool_())
        for term in terms:
            every = pc.and_(every, term_mask(term, columns(term.column)))
        found = pc.or_(found, every)
    return found


def term_mask(term: Term, column: pa.Array) -> pa.Array:
    """Which values a term is true of; never null. Raises `MalformedPredicate`."""
    values = _values(term, column.type)
    if term.op is Op.IS_NULL:
        return column.is_null()
    if term.op is Op.IS_NOT_NULL:
        return column.is_valid()
    if pa.types.is_null(column.type):  # Arrow has no comparisons of it
        return pa.array([term.op is Op.DISTINCT and bool(values)] * len(column), pa.bool_())
    if term.op is Op.DISTINCT:
        if not values:
            return column.is_valid()
        return pc.fill_null(pc.not_equal(column, values[0]), True)
    if term.op in (Op.IN, Op.NOT_IN):
        return _among(column, values, wanted=term.op is Op.IN)
    return pc.fill_null(_PLAIN[term.op](column, values[0]), False)


def _among(column: pa.Array, values: Sequence[pa.Scalar], *, wanted: bool) -> pa.Array:
    known = pa.array(values, column.type)
    if pa.types.is_floating(column.type):  # -0.0 is 0.0, and nothing is NaN
        column, known = pc.add(column, 0.0), pc.add(known, 0.0)
        known = known.filter(pc.invert(pc.is_nan(known)))
    found = pc.is_in(column, value_set=known)
    return pc.and_(found if wanted else pc.invert(found), column.is_valid())


def is_prunable(term: Term, column_type: pa.DataType) -> bool:
    """Whether partitions without a fitting value in an index have no row the term is true of,
    for all engines: some take NaN for the highest number."""
    if term.op not in _INDEXED:
        return False
    if kind_of(column_type) != "float":
        return True
    values = term.value if term.op is Op.IN else [term.value]
    return term.op not in _HIGHEST and not any(_is_nan(value) for value in values)


def _is_nan(value: Any) -> bool:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    return isinstance(plain, float) and isnan(plain)


def _values(term: Term, column_type: pa.DataType) -> list[pa.Scalar]:
    """What the term compares with; nothing for null. Raises `MalformedPredicate`."""
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
        if pa.types.is_null(column_type):  # whatever is asked, nothing is equal to it
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
    """The same value in the type of the column, where it has it."""
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
