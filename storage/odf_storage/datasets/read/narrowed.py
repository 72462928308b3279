"""A view without the slices that have no row of the result, and the filter for scans of the rest.

A filter is about rows of the result. Rows of a changelog may be filtered at once. Before a
projection to the present state, only the part on the primary key may be applied, since a row that
the filter drops may be the last one of its key. Before a projection to facts, filters on all
columns may be applied, since a retraction has the same values as the row it retracts; except for
operation, offset and system time. Source: Kartothek facts, "When pruning is sound".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import BadInput
from odf_protocol.kartothek.predicates import Predicate

from ..pruning.bounds import bounds_indices
from ..pruning.filters import Filter
from ..pruning.learned import Bounds
from ..pruning.plan import SliceIndex, slices_to_open
from ..pruning.predicates import columns_of, predicate_of, weakened
from .rows import Projection
from .view import View


class UnknownColumn(BadInput):
    """A column that the dataset does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Bounds and indices of slices that are known before they are read."""

    bounds: Mapping[str, Sequence[Bounds | None]] = field(default_factory=dict)
    """Bounds by column, in the order of the view's slices."""
    indices: Sequence[SliceIndex] = ()
    """Further indices of the view's slices."""


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """A view as it is read for one result."""

    view: View
    """The view with only the slices that have to be opened."""
    schema: pa.Schema
    """Schema of the rows; all columns are nullable."""
    total: int
    """Number of slices before narrowing."""
    wanted: Predicate | None = None
    """The filter that rows of the result satisfy; None: no filter."""
    early: Predicate | None = None
    """The part of the filter that may be applied to rows of the changelog."""
    rows_before: int = 0
    """Number of rows in slices that were left out because all their rows are skipped."""
    learned: dict[tuple[str, str], Bounds] = field(default_factory=dict)
    """Bounds by hash of slice and column; filled while slices are read to their end."""

    @property
    def scanned(self) -> int:
        return len(self.view.slices)


def narrowed(
    view: View,
    filters: Sequence[Filter] = (),
    *,
    below: Projection = Projection.CHANGELOG,
    known: Known = NOTHING_KNOWN,
) -> Narrowed:
    """Return the view narrowed to the slices that may have rows of the result.

    Raises:
        UnknownColumn, MalformedFilter.
    """
    schema = loosened(view.schema if view.schema is not None else pa.schema([]))
    total = len(view.slices)
    if not filters:
        return Narrowed(view=view, schema=schema, total=total)
    check_columns([each.column for each in filters], schema)
    wanted = predicate_of(filters, schema)
    early = weakened(wanted, early_columns(view, schema, below))
    offset = view.vocab.offset_column
    intervals = [
        (each.start, each.end) for each in (data.offset_interval for data, _ in view.slices)
    ]
    by_bounds = bounds_indices(columns_of(early or ()), schema, known.bounds, offset, intervals)
    indices = [*by_bounds, *known.indices]
    open_it = slices_to_open(total, early, schema, indices)
    slices = tuple(each for each, is_open in zip(view.slices, open_it, strict=True) if is_open)
    return Narrowed(
        view=replace(view, slices=slices), schema=schema, total=total, wanted=wanted, early=early
    )


def without_skipped(narrow: Narrowed, skip: int) -> Narrowed:
    """Leave out the first slices as long as all their rows are skipped."""
    before = 0
    for number, (data, _) in enumerate(narrow.view.slices):
        rows = data.offset_interval.end - data.offset_interval.start + 1
        if before + rows > skip:
            view = replace(narrow.view, slices=narrow.view.slices[number:])
            return replace(narrow, view=view, rows_before=before)
        before += rows
    return replace(narrow, view=replace(narrow.view, slices=()), rows_before=before)


def early_columns(view: View, schema: pa.Schema, below: Projection) -> Collection[str]:
    """Return the columns by which a changelog may be filtered before a projection."""
    if below is Projection.CHANGELOG:
        return list(schema.names)
    if below is Projection.STATE:
        return view.key
    return [name for name in schema.names if name not in _added(view.vocab)]


def check_columns(names: Collection[str], schema: pa.Schema) -> None:
    """Check that the columns exist. Raise `UnknownColumn`."""
    for name in names:
        if name not in schema.names:
            raise UnknownColumn(f"the dataset has no column {name[:100]!r}", column=name[:100])


def loosened(schema: pa.Schema) -> pa.Schema:
    """Return the schema with all columns nullable, since rows of older slices may lack one."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _added(vocab: Vocab) -> tuple[str, str, str]:
    """Return the columns in which a retraction differs from the row it retracts."""
    return vocab.offset_column, vocab.operation_type_column, vocab.system_time_column
