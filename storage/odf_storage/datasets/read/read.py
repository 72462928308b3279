"""Read a dataset as a table, from any source: its slices in the schema of one block.

Columns that a slice of an older schema lacks are filled with nulls, and columns get the order of
the schema. Files without random access are copied to a temporary folder, which is removed at the
end of the read.

Find retractions of a changelog that retract no valid row.

Rows are compared by all their values, event time included; keys play no part, so that this works
for derivatives too. Rows are read twice in the order of their offsets, or not at all if the
changelog has no retractions; memory grows with the number of retracted rows.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.kartothek.predicates import Predicate, mask_of
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash

from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..job_payloads.verify_job import VerifyProblem
from ..pruning.bounds import columns_of
from ..pruning.filters import Filter
from ..verify.source import ChainSource, HashingSource
from .rows import (
    CORRECT_FROM,
    RETRACT,
    WHOLE,
    Projection,
    RowCut,
    Scan,
    contents,
    is_one_of,
    project,
    takes_back,
)
from .scan import (
    NOTHING_KNOWN,
    KnownBounds,
    Narrowed,
    SliceScan,
    check_columns,
    narrowed,
    without_skipped,
)
from .view import View, view_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRequest:
    """A request to read rows. `limit` None: read to the end."""

    projection: Projection = Projection.CHANGELOG
    cut: RowCut = WHOLE
    columns: tuple[str, ...] | None = None
    filters: tuple[Filter, ...] = ()
    """Each row of the result satisfies all of them."""
    skip: int = 0
    limit: int | None = None

    @property
    def is_page(self) -> bool:
        """Whether the result is consecutive rows of the changelog, so that offset intervals show
        which slices have them."""
        is_plain = self.projection is Projection.CHANGELOG and self.cut == WHOLE
        return is_plain and not self.filters


def narrowed_for(view: View, asked: RowsRequest, known: KnownBounds = NOTHING_KNOWN) -> Narrowed:
    """Return the slices that have to be opened. Raise `UnknownColumn`, `MalformedFilter`."""
    narrow = narrowed(view, asked.filters, below=asked.projection, known=known)
    keyed = asked.projection is Projection.STATE and view.schema is not None
    check_columns([*(asked.columns or ()), *(view.key if keyed else ())], narrow.schema)
    return without_skipped(narrow, asked.skip) if asked.is_page else narrow


def reading(
    view: View, asked: RowsRequest
) -> AbstractContextManager[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """As `rows_of`, without known bounds or indices. Raises the errors of `narrowed_for`, too."""
    return rows_of(narrowed_for(view, asked), asked)


@contextmanager
def rows_of(
    narrow: Narrowed, asked: RowsRequest
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield schema and rows, in offset order; remove temporary files at the end of the context.
    `narrow` is the result of `narrowed_for` with the same `asked`.

    Raises:
        DatasetHasNoPrimaryKeys, UnusableKey.
        ObjectDamaged, ObjectHealing: a slice of a dataset of this node is missing; while rows
            are read, one is damaged.
        UnreadableSlice: while rows are read.
        NotFound: a slice of a dataset elsewhere is missing.
    """
    view, schema, columns = narrow.view, narrow.schema, asked.columns
    shown = schema if columns is None else pa.schema([schema.field(n) for n in columns])
    skip = asked.skip - narrow.rows_before
    _require_slices(view, asked, skip)
    is_late = narrow.wanted is not None and narrow.wanted != narrow.early
    late = columns_of(narrow.wanted or ()) if is_late else []
    with tempfile.TemporaryDirectory(prefix="read-") as folder:
        scan = SliceScan(
            narrow,
            Path(folder),
            known_until=asked.cut.system_time,
            once=asked.projection is Projection.CHANGELOG,
        )
        batches = project(
            scan,
            view.vocab,
            asked.projection,
            key=view.key,
            cut=asked.cut,
            columns=columns if columns is None else list(dict.fromkeys([*columns, *late])),
        )
        if is_late and narrow.wanted is not None:
            batches = _filtered(batches, narrow.wanted, columns)
        yield shown, _part(batches, skip, asked.limit)


@contextmanager
def scanning(view: View | Narrowed) -> Iterator[Scan]:
    """Yield a scan of all rows, or of those of a narrowed view, which may run several times; remove
    temporary files at the end of the context."""
    narrow = view if isinstance(view, Narrowed) else narrowed(view)
    with tempfile.TemporaryDirectory(prefix="read-") as folder:
        yield SliceScan(narrow, Path(folder))


def _require_slices(view: View, asked: RowsRequest, skip: int) -> None:
    """Check that the slices to be read exist, without reading them, so that a missing slice is an
    error before the first row is sent."""
    if isinstance(view.source, HashingSource):
        some = _asked_slices([data for data, _ in view.slices], asked, skip)
        view.source.require(ObjectKind.DATA, ((data.physical_hash, data.size) for data in some))


def _asked_slices(
    slices: Sequence[DataSlice], asked: RowsRequest, skip: int
) -> Iterator[DataSlice]:
    """Yield the slices that may be read: of a page of a changelog, only those before its end."""
    left = None if asked.limit is None or not asked.is_page else skip + asked.limit
    for data in slices:
        if left is not None and left <= 0:
            return
        yield data
        if left is not None:
            left -= data.offset_interval.count


def _filtered(
    batches: Iterator[pa.RecordBatch], wanted: Predicate, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.filter(mask_of(wanted, batch.column, batch.num_rows))
        if rows.num_rows:
            yield rows if columns is None else rows.select(list(columns))


def _part(
    batches: Iterator[pa.RecordBatch], skip: int, limit: int | None
) -> Iterator[pa.RecordBatch]:
    left = limit
    while left is None or left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        piece = batch.slice(skip, left)
        skip = 0
        left = None if left is None else left - piece.num_rows
        yield piece


UNFOUNDED = "RetractionUnfounded"
SHOWN_OFFSETS = 10
"""Limit of offsets of one slice that a note lists."""


def changelog_notes(source: ChainSource) -> Iterator[VerifyProblem]:
    """Yield a note for each slice with unfounded retractions.

    Raises the errors of reading a dataset; the caller has verified before that it is whole.
    """
    view = view_of(source)
    found: dict[str, list[int]] = {}
    names = {data.offset_interval.start: str(data.physical_hash) for data, _ in view.slices}
    starts = sorted(names)
    with scanning(view) as scan:
        for offset in unfounded(scan, view.vocab):
            first = starts[bisect_right(starts, offset) - 1]
            found.setdefault(names[first], []).append(offset)
    for data, offsets in found.items():
        more = ", …" if offsets[SHOWN_OFFSETS:] else ""
        shown = ", ".join(map(str, offsets[:SHOWN_OFFSETS]))
        yield VerifyProblem(
            kind=UNFOUNDED,
            reason=UNFOUNDED,
            message=f"{len(offsets)} row(s) take back a row that does not stand, at offset "
            f"{shown}{more}",
            path=str(object_path(ObjectKind.DATA, Multihash.parse(data))),
        )


def unfounded(scan: Scan, vocab: Vocab) -> Iterator[int]:
    """Yield the offsets of retractions that retract no valid row."""
    if not takes_back(scan, vocab):
        return
    wanted = {
        content
        for batch in scan(None, None)
        for _, content in contents(batch.filter(is_one_of(batch, vocab, *_GONE)), vocab)
    }
    standing: Counter[tuple[Any, ...]] = Counter()
    for batch in scan(None, None):
        codes = batch.column(vocab.operation_type_column).to_pylist()
        for code, (offset, content) in zip(codes, contents(batch, vocab), strict=True):
            if content not in wanted:
                continue
            if code not in _GONE:
                standing[content] += 1
            elif standing[content]:
                standing[content] -= 1
            else:
                yield offset


_GONE = (RETRACT, CORRECT_FROM)
