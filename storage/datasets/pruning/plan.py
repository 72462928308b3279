"""Which slices may hold a row that a predicate is true of.

A slice is left out only where something that is known says so: the answer is the same as if all
were read. Source: Kartothek facts, "When pruning is sound".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from odf_node.protocol.kartothek.predicates import Predicate, Term, is_prunable

Mask = np.ndarray[Any, np.dtype[np.bool_]]
"""One truth for each slice, in their order."""


class SliceIndex(Protocol):
    """What is known of the values in the slices of a plan."""

    def may_hold(self, term: Term, /) -> Mask | None:
        """Which slices may hold a value that the term is true of, by all this index knows; True
        for those it does not cover. None where it knows nothing of the column."""


def slices_to_open(
    count: int, predicate: Predicate | None, schema: pa.Schema, indices: Sequence[SliceIndex]
) -> Mask:
    """Which of so many slices have to be read; all without a predicate.

    `schema` is that of the rows as they are compared. A part of the predicate that an index cannot
    answer (null tests, `!=`, the upper end of floats, which may be NaN) restricts nothing.
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
