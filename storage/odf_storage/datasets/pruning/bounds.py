"""The least and the greatest value of a column in a slice, learned while all its rows are read.

Footers of slices have bounds too, but the writer of a slice may have written wrong ones, so only
the rows count. A slice never changes, so its bounds stay true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.kartothek.errors import UnsupportedColumn
from odf_protocol.kartothek.predicates import Op, Term, term_mask
from odf_protocol.kartothek.types import kind_of

from .learned import Bounds
from .plan import Mask

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
                form.read([None if each is None else getattr(each, end) for each in fitting]).cast(
                    column_type
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
    read: Callable[[list[Any]], pa.Array]


def _whole(value: pa.Scalar) -> Any:
    wide = pa.int64() if value.type.bit_width == 64 else pa.int32()
    return value.cast(wide).as_py()


def _days(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


def _decimals(values: list[Any]) -> pa.Array:
    return pa.array([None if each is None else Decimal(each) for each in values])


_FORMS: dict[str, _Form] = {
    "bool": _Form(lambda value: value.as_py(), lambda values: pa.array(values, pa.bool_())),
    "integer": _Form(lambda value: value.as_py(), pa.array),
    "decimal": _Form(lambda value: str(value.as_py()), _decimals),
    "text": _Form(lambda value: value.as_py(), lambda values: pa.array(values, pa.string())),
    "date": _Form(lambda value: _whole(value.cast(pa.date32())), _days),
    "timestamp": _Form(_whole, lambda values: pa.array(values, pa.int64())),
    "timestamp with zone": _Form(_whole, lambda values: pa.array(values, pa.int64())),
}
"""Forms by kind of column; columns of other kinds have no bounds, and floats have none because
NaN lies outside."""


def _form_of(column_type: pa.DataType) -> _Form | None:
    try:
        kind = kind_of(column_type)
    except UnsupportedColumn:
        return None
    return _FORMS.get(kind)
