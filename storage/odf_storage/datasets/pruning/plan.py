"""Decide which slices may have a row for which a predicate is true.

A slice is left out only if an index proves that it has no such row, so the result is the same as
if all slices were read. Source: Kartothek facts, "When pruning is sound".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from odf_protocol.kartothek.predicates import Predicate, Term, is_prunable

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
