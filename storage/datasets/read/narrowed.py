"""A view without the slices that hold no row of an answer, and what a scan of the rest asks.

A filter is about rows of the answer. Of a changelog it may be asked at once. Below the present
state only the part on the primary key may, since a row of another value may be the last one of
its key; below facts everything a row says may, since a row is taken back by one that says the
same. Operation, offset and system time are none of it. Source: Kartothek facts, "When pruning is
sound".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.errors import BadInput
from odf_node.protocol.kartothek.predicates import Predicate

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
    """What is known of slices beforehand."""

    bounds: Mapping[str, Sequence[Bounds | None]] = field(default_factory=dict)
    """By column, in the order of the view's slices."""
    indices: Sequence[SliceIndex] = ()
    """Others, of the view's slices."""


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """A view as it is read for one answer."""

    view: View
    """With the slices that have to be opened only."""
    schema: pa.Schema
    """Of the rows, no column required."""
    total: int
    """Slices there were."""
    wanted: Predicate | None = None
    """What is true of rows of the answer; None: nothing is asked."""
    early: Predicate | None = None
    """The part of it that is asked of rows of the changelog."""
    rows_before: int = 0
    """In slices that were left out because all their rows are skipped."""
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
    """The slices that may hold rows of the answer. Raises `UnknownColumn`, `MalformedFilter`."""
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
    """Without the first slices, as far as they hold only rows that are skipped anyway."""
    before = 0
    for number, (data, _) in enumerate(narrow.view.slices):
        rows = data.offset_interval.end - data.offset_interval.start + 1
        if before + rows > skip:
            view = replace(narrow.view, slices=narrow.view.slices[number:])
            return replace(narrow, view=view, rows_before=before)
        before += rows
    return replace(narrow, view=replace(narrow.view, slices=()), rows_before=before)


def early_columns(view: View, schema: pa.Schema, below: Projection) -> Collection[str]:
    """Columns by which a changelog may be filtered below a projection."""
    if below is Projection.CHANGELOG:
        return list(schema.names)
    if below is Projection.STATE:
        return view.key
    return [name for name in schema.names if name not in _added(view.vocab)]


def check_columns(names: Collection[str], schema: pa.Schema) -> None:
    """Raises `UnknownColumn`."""
    for name in names:
        if name not in schema.names:
            raise UnknownColumn(f"the dataset has no column {name[:100]!r}", column=name[:100])


def loosened(schema: pa.Schema) -> pa.Schema:
    """No column is required: rows of older slices may lack one."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _added(vocab: Vocab) -> tuple[str, str, str]:
    """Columns in which a row differs from the one it takes back."""
    return vocab.offset_column, vocab.operation_type_column, vocab.system_time_column
