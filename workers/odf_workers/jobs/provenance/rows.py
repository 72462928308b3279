"""A row of a dataset, found by its offset: its slice, its block, and whether it still stands."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput, Damaged, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.pruning.filters import Filter, equal
from odf_storage.datasets.pruning.learned import LearnedBounds
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.records import DataFormat, shaped
from odf_storage.datasets.read.rows import Scan, contents, is_one_of, takes_back
from odf_storage.datasets.read.scan import KnownBounds, narrowed
from odf_storage.datasets.read.view import Outline, View
from odf_storage.datasets.verify.source import DatasetSource

from ...engines.port.tracing import rows_like
from ...slices.schema import Operation
from ..work.memory import Memory

OPERATIONS = {
    Operation.APPEND: "append",
    Operation.RETRACT: "retract",
    Operation.CORRECT_FROM: "correct-from",
    Operation.CORRECT_TO: "correct-to",
}
ADDS = frozenset({Operation.APPEND, Operation.CORRECT_TO})
TAKES = frozenset(Operation) - ADDS
ROWS = "rows"
"""The name of bounds that were learned from rows among learned bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """A row, with the view of its dataset in which it was found."""

    dataset: Dataset
    outline: Outline
    view: View
    slice: int
    offset: int
    table: pa.Table
    """The one row, with the columns of the view."""

    @property
    def operation(self) -> Operation:
        return Operation(self.table.column(self.view.vocab.operation_type_column)[0].as_py())

    @property
    def adds(self) -> bool:
        return self.operation in ADDS

    @property
    def block(self) -> HashedBlock:
        """The block that added the row."""
        return self.dataset.block(self.outline.blocks[self.slice])

    def data(self) -> dict[str, pa.Scalar]:
        """Return the event time and the columns of data."""
        vocab = self.view.vocab
        ours = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
        return {
            name: self.table.column(name)[0] for name in self.table.schema.names if name not in ours
        }

    def values(self) -> dict[str, Any]:
        """Return event time and data as JSON values."""
        row = shaped(self.table.select(list(self.data())), DataFormat.AOS)[0]
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(row))
        return found

    def comparable(self) -> dict[str, str]:
        """Return the values that filters can compare, as texts."""
        return {
            name: str(value)
            for name, value in self.values().items()
            if value is not None and is_compared(self.table.schema.field(name).type)
        }

    def filters(self) -> list[Filter]:
        """Return filters for the rows that may have the same content."""
        return [Filter(name, "eq", (value,)) for name, value in self.comparable().items()]

    def rank_among_equals(self) -> int:
        """Return how many equal rows are before this one in the same slice."""
        one = replace(self.view, slices=(self.view.slices[self.slice],))
        before, offset = 0, self.view.vocab.offset_column
        with scanning(narrowed(one, self.filters())) as scan:
            for batch in scan(None, None):
                table = pa.Table.from_batches([batch])
                like = pc.and_(
                    _of_kind(table, self), pc.less(table.column(offset), pa.scalar(self.offset))
                )
                before += table.filter(pc.and_(like, rows_like(table, self.data()))).num_rows
        return before


def is_compared(kind: pa.DataType) -> bool:
    """Return whether equal values have equal texts; floats are left out, as NaN is among them."""
    types = (
        pa.types.is_integer,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_timestamp,
        pa.types.is_date,
    )
    return any(each(kind) for each in types)


def _of_kind(table: pa.Table, row: FoundRow) -> pa.ChunkedArray:
    """Return a mask of the rows that add, or of those that do not, as the row does."""
    column = table.column(row.view.vocab.operation_type_column)
    adds = pc.is_in(column, value_set=pa.array(sorted(map(int, ADDS)), column.type))
    return adds if row.adds else pc.invert(adds)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one walk has learned of datasets as of blocks, so that it reads it once."""

    memory: Memory
    takes_back: dict[tuple[DatasetId, Multihash], bool] = field(default_factory=dict)


def find_row(dataset: Dataset, offset: int, at: Multihash | None, seen: Seen) -> FoundRow:
    """Find the row with an offset, as of a block.

    Raises:
        RowNotFound: the dataset has no such row as of the block.
        Damaged: the slice that should have it has not.
    """
    outline = seen.memory.outline(dataset, dataset.head() if at is None else at)
    view = outline.on(DatasetSource(dataset))
    ends = [data.offset_interval.end for data, _ in view.slices]
    place = bisect_left(ends, offset)
    if place == len(ends) or view.slices[place][0].offset_interval.start > offset:
        last = ends[-1] if ends else None
        there = "it has no rows" if last is None else f"its offsets are 0 to {last}"
        raise NotFound(
            "RowNotFound",
            f"{dataset.entry.alias.name} has no row with the offset {offset} as of block "
            f"{outline.head}: {there}",
            offset=offset,
            last=last,
        )
    one = replace(view, slices=(view.slices[place],))
    table = _row_in(one, offset, seen.memory.bounds)
    if table.num_rows != 1:  # its footer may be wrong
        table = _row_in(one, offset, None)
    if table.num_rows != 1:
        name = view.slices[place][0].physical_hash
        raise Damaged(
            "RowMissing", f"slice {name} has no row with offset {offset}", object=f"data/{name}"
        )
    return FoundRow(
        dataset=dataset, outline=outline, view=view, slice=place, offset=offset, table=table
    )


def offset_of_key(dataset: Dataset, key: Sequence[str], at: Multihash, seen: Seen) -> int:
    """Return the offset of the newest row of a key, as of a block; it may take the others back.

    Raises:
        NoPrimaryKey, WrongKey, MalformedFilter. RowNotFound: no row has the key.
    """
    name, view = (
        dataset.entry.alias.name,
        seen.memory.outline(dataset, at).on(DatasetSource(dataset)),
    )
    if not view.key:
        raise BadInput(
            "NoPrimaryKey", f"no merge strategy of {name} has a primary key: ask for an offset"
        )
    if len(key) != len(view.key):
        raise BadInput(
            "WrongKey",
            f"the primary key of {name} is {', '.join(view.key)}: give key once for each of its "
            f"columns, in this order; not {len(key)} times",
            columns=list(view.key),
        )
    newest = -1
    if view.slices:
        with _learning(view, equal(view.key, key), seen.memory.bounds) as scan:
            for batch in scan([view.vocab.offset_column], None):
                newest = max([newest, *batch.column(0).to_pylist()])
    if newest < 0:
        raise NotFound("RowNotFound", f"{name} has no row with this key as of block {at}")
    return newest


def _row_in(slice_: View, offset: int, footers: LearnedBounds | None) -> pa.Table:
    asked = [Filter(slice_.vocab.offset_column, "eq", (str(offset),))]
    narrow = narrowed(slice_, asked, footers=footers)
    with scanning(narrow) as scan:
        rows = (batch for batch in scan(None, None) if batch.num_rows)
        return pa.Table.from_batches(list(islice(rows, 1)), narrow.schema)


@dataclass(frozen=True, slots=True)
class Fate:
    """The rows by which a row was taken back, and which it takes back, by offset."""

    undone_by: int | None = None
    undoes: int | None = None


def fate_of(row: FoundRow, seen: Seen) -> Fate:
    """Return what became of a row, by the rule of `read/rows.py`: each retraction takes back one
    earlier row of the same content, the oldest that is left."""
    key = (row.dataset.id, row.outline.head)
    if key not in seen.takes_back:
        column = row.view.vocab.operation_type_column
        taking = Filter(
            column, "in", tuple(str(int(each)) for each in Operation if each not in ADDS)
        )
        with _learning(row.view, [taking], seen.memory.bounds) as scan:
            seen.takes_back[key] = takes_back(scan, row.view.vocab)
    if not seen.takes_back[key]:
        return Fate()
    with _learning(row.view, row.filters(), seen.memory.bounds) as scan:
        alike = sorted(_alike(row, scan(None, None)))
    taken = deque(offset for offset, adds in alike if not adds)
    for offset, adds in alike:
        if not adds:
            continue
        while taken and taken[0] < offset:
            taken.popleft()  # it took back no row that is left
        by = taken.popleft() if taken else None
        if offset == row.offset:
            return Fate(undone_by=by)
        if by is not None and by == row.offset:
            return Fate(undoes=offset)
    return Fate()


@contextmanager
def _learning(view: View, filters: Sequence[Filter], bounds: LearnedBounds) -> Iterator[Scan]:
    """Yield a scan of the rows that fit, in the slices that may have some by what was learned from
    their rows; learn from those that are read."""
    names = [str(data.physical_hash) for data, _ in view.slices]
    known = KnownBounds(bounds=bounds.of(ROWS, [each.column for each in filters], names))
    narrow = narrowed(view, filters, known=known)
    with scanning(narrow) as scan:
        yield scan
    bounds.learn(ROWS, [(name, column, each) for (name, column), each in narrow.learned.items()])


def _alike(row: FoundRow, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, bool]]:
    """Yield offset and whether it adds, of each row with the same content."""
    vocab = row.view.vocab
    time = row.table.column(vocab.event_time_column)[0]
    (_, wanted) = next(contents(row.table.combine_chunks().to_batches()[0], vocab))
    for batch in batches:
        if time.is_valid:
            same = pc.equal(batch.column(vocab.event_time_column), time)
            batch = batch.filter(pc.fill_null(same, False))
        adds = is_one_of(batch, vocab, *map(int, ADDS)).to_pylist()
        for (offset, content), is_added in zip(contents(batch, vocab), adds, strict=True):
            if content == wanted:
                yield offset, is_added
