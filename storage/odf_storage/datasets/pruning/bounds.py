"""The least and the greatest value of a column in a slice, learned while all its rows are read.

Footers of slices have bounds too, but the writer of a slice may have written wrong ones, so only
the rows count. A slice never changes, so its bounds stay true.

Decide which slices may have a row for which a predicate is true.

A slice is left out only if an index proves that it has no such row, so the result is the same as
if all slices were read. Source: Kartothek facts, "When pruning is sound".

Convert filters to a predicate on columns of a dataset; restrict a predicate to some columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.instant import NANOS
from odf_protocol.kartothek.keys import UnsupportedColumn
from odf_protocol.kartothek.partition_values import kind_of, read_value
from odf_protocol.kartothek.predicates import Op, Predicate, Term, is_prunable, term_mask

from .filters import OPERATORS, Filter, MalformedFilter
from .learned import Bounds

Mask = np.ndarray[Any, np.dtype[np.bool_]]
"""One boolean for each slice, in their order."""


class SliceIndex(Protocol):
    """An index of the values in the slices of a plan."""

    def may_hold(self, term: Term, /) -> Mask | None:
        """Return which slices may have a value for which the term is true; True for slices that
        the index does not cover. None if it does not cover the column."""


def slices_to_open(
    count: int, predicate: Predicate | None, schema: pa.Schema, indices: Sequence[SliceIndex]
) -> Mask:
    """Return which of `count` slices have to be read; all if there is no predicate.

    `schema` is that of the rows as they are compared. A part of the predicate that an index cannot
    answer (null tests, `!=`, comparisons of floats, which may be NaN) leaves out no slice.
    """
    if predicate is None:
        return np.ones(count, bool)
    found = np.zeros(count, bool)
    for terms in predicate:
        found |= _with_all(count, terms, schema, indices)
    return found


def _with_all(
    count: int, terms: Sequence[Term], schema: pa.Schema, indices: Sequence[SliceIndex]
) -> Mask:
    may = np.ones(count, bool)
    for term in terms:
        if not is_prunable(term, schema.field(term.column).type):
            continue
        for index in indices:
            told = index.may_hold(term)
            if told is not None:
                may &= told
    return may


LONGEST = 256
"""Largest length, in characters, of a text as a bound; a slice with a longer one has no bounds."""


class BoundsOfSlice:
    """Computes the bounds of a column from its values, batch by batch."""

    def __init__(self, column_type: pa.DataType) -> None:
        self._type, self._form = column_type, _form_of(column_type)
        self._ends: list[pa.Scalar] = []

    def add(self, values: pa.Array) -> None:
        if self._form is None:
            return
        ends = pc.min_max(values)
        found = [*self._ends, ends["min"], ends["max"]]
        both = pc.min_max(pa.array([each for each in found if each.is_valid], self._type))
        self._ends = [both["min"], both["max"]]

    def bounds(self) -> Bounds | None:
        """Return the bounds of all added values; None if bounds are not kept for them."""
        if self._form is None:
            return None
        try:
            ends = [self._form.written(each) if each.is_valid else None for each in self._ends]
        except UnicodeDecodeError:
            return None
        if any(isinstance(each, str) and len(each) > LONGEST for each in ends):
            return None
        return Bounds(str(self._type), *(ends or [None, None]))


class BoundsIndex:
    """Bounds of one column as an index; a slice without bounds may have any value."""

    def __init__(
        self, column: str, column_type: pa.DataType, known: Sequence[Bounds | None]
    ) -> None:
        name, form = str(column_type), _form_of(column_type)
        fitting = [each if each is not None and each.type == name else None for each in known]
        self._column = column
        self._is_known = np.array([each is not None for each in fitting], bool)
        self._least = self._greatest = pa.nulls(len(known), column_type)
        if form is not None and self._is_known.any():
            self._least, self._greatest = (
                form.read(
                    [None if each is None else getattr(each, end) for each in fitting], column_type
                )
                for end in ("least", "greatest")
            )
        else:
            self._is_known[:] = False

    def may_hold(self, term: Term) -> Mask | None:
        if term.column != self._column or not self._is_known.any():
            return None
        told: Mask = fits_between(term, self._least, self._greatest) | ~self._is_known
        return told


def fits_between(term: Term, least: pa.Array, greatest: pa.Array) -> Mask:
    """Return a mask of the intervals `least` to `greatest` that may have a value for which the
    term is true."""
    found = np.zeros(len(least), bool)
    if term.op is Op.IN:
        for value in term.value:
            found |= fits_between(Term(term.column, Op.EQUAL, value), least, greatest)
        return found
    found[:] = True
    for op, ends in _FITS[term.op]:
        values = least if ends == "least" else greatest
        fits = term_mask(Term(term.column, op, term.value), values)
        found &= np.asarray(fits.to_numpy(zero_copy_only=False), bool)
    return found


_FITS: dict[Op, tuple[tuple[Op, str], ...]] = {
    Op.EQUAL: ((Op.LESS_EQUAL, "least"), (Op.GREATER_EQUAL, "greatest")),
    Op.LESS: ((Op.LESS, "least"),),
    Op.LESS_EQUAL: ((Op.LESS_EQUAL, "least"),),
    Op.GREATER: ((Op.GREATER, "greatest"),),
    Op.GREATER_EQUAL: ((Op.GREATER_EQUAL, "greatest"),),
}
"""Conditions on the ends of an interval that hold if the term is true for a value inside."""


def bounds_indices(
    columns: Iterable[str],
    schema: pa.Schema,
    known: Mapping[str, Sequence[Bounds | None]],
    offset: str,
    intervals: Sequence[tuple[int, int]],
) -> list[BoundsIndex]:
    """Return indices on these columns; `known` has the bounds by column, in the order of slices.

    The bounds of the column `offset` are from the chain: `intervals` are its first and last values.
    """
    found = []
    for name in columns:
        bounds, kind = known.get(name, ()), schema.field(name).type
        if name == offset and pa.types.is_integer(kind):
            bounds = [Bounds(str(kind), first, last) for first, last in intervals]
        if len(bounds) == len(intervals):
            found.append(BoundsIndex(name, kind, bounds))
    return found


class _Form(msgspec.Struct, frozen=True):
    """Functions that write values of a kind as JSON and read them again."""

    written: Callable[[pa.Scalar], Any]
    read: Callable[[list[Any], pa.DataType], pa.Array]
    """To an array of that type: what Arrow makes of whole numbers by itself ends with `Int64`."""


def _whole(value: pa.Scalar) -> Any:
    wide = pa.int64() if value.type.bit_width == 64 else pa.int32()
    return value.cast(wide).as_py()


def _days(values: list[Any], wanted: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32()).cast(wanted)


def _moments(values: list[Any], wanted: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(wanted)


def _decimals(values: list[Any], wanted: pa.DataType) -> pa.Array:
    return pa.array([None if each is None else Decimal(each) for each in values], wanted)


_FORMS: dict[str, _Form] = {
    "bool": _Form(lambda value: value.as_py(), pa.array),
    "integer": _Form(lambda value: value.as_py(), pa.array),
    "decimal": _Form(lambda value: str(value.as_py()), _decimals),
    "text": _Form(lambda value: value.as_py(), pa.array),
    "date": _Form(lambda value: _whole(value.cast(pa.date32())), _days),
    "timestamp": _Form(_whole, _moments),
    "timestamp with zone": _Form(_whole, _moments),
}
"""Forms by kind of column; columns of other kinds have no bounds, and floats have none because
NaN lies outside."""


def _form_of(column_type: pa.DataType) -> _Form | None:
    try:
        kind = kind_of(column_type)
    except UnsupportedColumn:
        return None
    return _FORMS.get(kind)


_COMPARED = frozenset(
    {
        "bool",
        "integer",
        "float",
        "text",
        "binary",
        "date",
        "decimal",
        "time",
        "timestamp",
        "timestamp with zone",
    }
)
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?", re.ASCII)


def predicate_of(filters: Sequence[Filter], schema: pa.Schema) -> Predicate:
    """Return the conjunction of the filters; values get the types of their columns in the schema.

    Values have the same form as in JSON records: instants with `Z`, bytes in hex, decimals
    unchanged. Raise `MalformedFilter`.
    """
    return [[_term(each, schema.field(each.column).type) for each in filters]]


def columns_of(predicate: Predicate) -> list[str]:
    """Return the columns that a predicate uses, each once."""
    return list(dict.fromkeys(term.column for terms in predicate for term in terms))


def weakened(predicate: Predicate, columns: Collection[str]) -> Predicate | None:
    """Return the part of a predicate that uses only these columns. It is true for every row for
    which the whole predicate is true. None if it is true for all rows.
    """
    parts = [[term for term in terms if term.column in columns] for terms in predicate]
    return parts if all(parts) else None


def _term(asked: Filter, wanted: pa.DataType) -> Term:
    op = Op(OPERATORS[asked.operator])
    if op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return Term(asked.column, op)
    values = [_value(asked.column, text, wanted) for text in asked.values]
    return Term(asked.column, op, values if op is Op.IN else values[0])


def _time(text: str, wanted: pa.DataType) -> pa.Scalar:
    """Return a time of day. Raises `ValueError`: it is none, or has digits below the unit."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("not written as 12:30 or 12:30:00.123456")
    hour, minute, second = (int(each or 0) for each in found.groups()[:3])
    ns = ((hour * 60 + minute) * 60 + second) * NANOS + int((found[4] or "").ljust(9, "0"))
    return pa.scalar(ns, pa.time64("ns")).cast(wanted)


def _value(column: str, text: str, wanted: pa.DataType) -> pa.Scalar:
    try:
        kind = kind_of(wanted)
    except UnsupportedColumn:
        kind = ""
    if kind not in _COMPARED:
        raise MalformedFilter(
            f"column {column[:100]!r} has the type {wanted}, with whose values a filter does not"
            " compare: it takes null and notnull alone",
            column=column[:100],
        )
    try:
        if kind == "binary":
            return pa.scalar(bytes.fromhex(text), wanted)
        if kind == "time":
            return _time(text, wanted)
        if kind == "timestamp":
            text = text.removesuffix("Z")
        return read_value(text, wanted).cast(wanted)
    except (ValueError, pa.ArrowException) as error:
        shown = text[:100].encode("utf-8", "replace").decode()
        raise MalformedFilter(
            f"{shown!r} is no value of column {column[:100]!r} of type {wanted}: "
            f"{str(error)[:200]}",
            column=column[:100],
        ) from None
