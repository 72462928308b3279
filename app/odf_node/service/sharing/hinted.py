"""Find the slices that may have rows that match hints, from the chain and the learned bounds.

No file is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from odf_protocol.instant import Instant
from odf_protocol.kartothek.errors import UnsupportedColumn
from odf_protocol.kartothek.predicates import Op, Predicate, Term, term_mask
from odf_protocol.kartothek.types import kind_of
from odf_storage.datasets.pruning.bounds import bounds_indices
from odf_storage.datasets.pruning.filters import MalformedFilter
from odf_storage.datasets.pruning.learned import Bounds
from odf_storage.datasets.pruning.plan import Mask, slices_to_open
from odf_storage.datasets.pruning.predicates import columns_of, predicate_of
from odf_storage.datasets.read.narrowed import loosened
from odf_storage.datasets.read.view import View

from .hints import Alternatives, Hint

_LATEST = {Op.EQUAL: Op.GREATER_EQUAL, Op.GREATER: Op.GREATER, Op.GREATER_EQUAL: Op.GREATER_EQUAL}
"""Comparison that the latest time of a slice must satisfy if one of its rows satisfies the key."""


class Recorded:
    """An index of the system time column: rows are not newer than their block."""

    def __init__(self, column: str, times: Sequence[Instant]) -> None:
        self._column = column
        self._millis = pa.array([each.millis + 1 for each in times], pa.int64())

    def may_hold(self, term: Term) -> Mask | None:
        is_told = term.column == self._column and term.op in _LATEST
        if not is_told or not pa.types.is_timestamp(term.value.type):
            return None
        latest = self._millis.cast(pa.timestamp("ms", "UTC"))
        wanted = term.value.cast(latest.type, safe=False)
        found = term_mask(Term(term.column, _LATEST[term.op], wanted), latest)
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def hinted_columns(hints: Alternatives) -> list[str]:
    """Return the compared columns, each once."""
    return list(dict.fromkeys(hint.filter.column for each in hints for hint in each))


def may_hold_hinted(
    view: View, hints: Alternatives, bounds: Mapping[str, Sequence[Bounds | None]]
) -> Mask:
    """Return for each slice of the view whether it may match; `bounds` are in slice order."""
    schema = loosened(pa.schema([]) if view.schema is None else view.schema)
    predicate = [_terms(each, schema) for each in hints]
    if not all(predicate):
        return np.ones(len(view.slices), bool)
    intervals = [
        (each.start, each.end) for each in (data.offset_interval for data, _ in view.slices)
    ]
    known = bounds_indices(
        columns_of(predicate), schema, bounds, view.vocab.offset_column, intervals
    )
    times = Recorded(view.vocab.system_time_column, [recorded for _, recorded in view.slices])
    return slices_to_open(len(view.slices), predicate, schema, [*known, times])


def _terms(hints: Iterable[Hint], schema: pa.Schema) -> list[Term]:
    """Return the terms of one alternative that can be evaluated."""
    found: list[Term] = []
    for hint in hints:
        if _is_asked(hint, schema):
            try:
                told: Predicate = predicate_of([hint.filter], schema)
            except MalformedFilter:
                continue
            found += told[0]
    return found


def _is_asked(hint: Hint, schema: pa.Schema) -> bool:
    """Return whether a hint can be evaluated. Columns of short floats are excluded: engines widen
    them to compare, while we round the value."""
    if schema.get_field_index(hint.filter.column) < 0:
        return False
    wanted = schema.field(hint.filter.column).type
    try:
        kind = kind_of(wanted)
    except UnsupportedColumn:
        return False
    return kind in hint.kinds and not (kind == "float" and wanted != pa.float64())
