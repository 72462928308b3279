"""Find rows with some values, in offset order: their whole history, or only the live rows.

Live rows follow the rule of a published state: the last row of each primary key if it adds, or rows
that no later row retracts. Source: Kartothek facts, "What is in the table".
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from odf_protocol.kartothek.predicates import mask_of
from odf_storage.datasets.kartothek.live_rows import live_by_row
from odf_storage.datasets.pruning.filters import Filter
from odf_storage.datasets.read.narrowed import Known, Narrowed, check_columns, narrowed
from odf_storage.datasets.read.rows import Projection, live_by_key
from odf_storage.datasets.read.scan import SliceScan
from odf_storage.datasets.read.view import View

from ..readers.tasks import AnswerTooLong


def looked_up(
    view: View,
    filters: Sequence[Filter],
    *,
    state: bool,
    limit: int,
    max_bytes: int,
    known: Known,
) -> tuple[pa.Table, Narrowed]:
    """Return the first `limit` rows that satisfy all filters, and which slices were opened.

    Raises:
        UnknownColumn, MalformedFilter, UnusableKey, UnreadableSlice.
        AnswerTooLong: the rows have more than `max_bytes`.
    """
    below = Projection.CHANGELOG
    if state:
        below = Projection.STATE if view.key else Projection.FACTS
    narrow = narrowed(view, filters, below=below, known=known)
    if state:
        check_columns(view.key, narrow.schema)
    with tempfile.TemporaryDirectory(prefix="lookup-") as folder:
        scan = SliceScan(narrow, Path(folder))
        batches = _standing(scan, narrow.view) if state else scan(None, None)
        rows = list(_first(_fitting(batches, narrow), limit, max_bytes))
    return pa.Table.from_batches(rows, narrow.schema), narrow


def _standing(scan: SliceScan, view: View) -> Iterator[pa.RecordBatch]:
    live = live_by_key(scan, view.vocab, view.key) if view.key else live_by_row(scan, view.vocab)[0]
    return scan(None, live)


def _fitting(batches: Iterator[pa.RecordBatch], narrow: Narrowed) -> Iterator[pa.RecordBatch]:
    """Yield the rows that satisfy the whole filter."""
    for batch in batches:
        if narrow.wanted is None or narrow.wanted == narrow.early:
            yield batch
        else:
            yield batch.filter(mask_of(narrow.wanted, batch.column, batch.num_rows))


def _first(
    batches: Iterator[pa.RecordBatch], limit: int, max_bytes: int
) -> Iterator[pa.RecordBatch]:
    left = max_bytes
    for batch in batches:
        if limit <= 0:
            return
        some = batch.slice(0, limit)
        limit, left = limit - some.num_rows, left - some.nbytes
        if left < 0:
            raise AnswerTooLong(max_bytes)
        yield some
