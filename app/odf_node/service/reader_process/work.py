"""Run a task in a reader: a table maps each type of task to its function.

A step from the earlier live rows to the current ones; the reader's part, which needs no index.

The service makes two requests: first for the hashes of new rows. It finds the older rows with these
hashes, and then requests which of all these rows are live.

Find rows with some values, in offset order: their whole history, or only the live rows.

Live rows follow the rule of a published state: the last row of each primary key if it adds, or rows
that no later row retracts. Source: Kartothek facts, "What is in the table".
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.instant import Instant
from odf_protocol.kartothek.predicates import mask_of
from odf_protocol.multihash import Multihash
from odf_protocol.typed import convert
from odf_storage.datasets.kartothek.live import live_by_row
from odf_storage.datasets.kartothek.matching import Offsets, hashed, matched_columns
from odf_storage.datasets.kartothek.own_index import own_slice_indices
from odf_storage.datasets.pruning.filters import Filter
from odf_storage.datasets.pruning.learned import Learned
from odf_storage.datasets.read.additions import only_adds
from odf_storage.datasets.read.records import DataFormat, shaped
from odf_storage.datasets.read.rows import (
    Projection,
    dataset_has_no_primary_keys,
    live_by_key,
    live_facts,
)
from odf_storage.datasets.read.scan import KnownBounds, Narrowed, SliceScan, check_columns, narrowed
from odf_storage.datasets.read.view import View
from odf_storage.stores.ports.values import ObjectKind

from ...proposal.options import chosen
from ...proposal.proposal import propose
from ...proposal.sample import sample_of_stream
from ...proposal.wire import written
from ..read.read import Reading, ReadRequest
from ..readers.messages import OpenedSlices
from ..readers.tasks import (
    MAX_ANSWER,
    MAX_TEXT_BYTES,
    ChangedTask,
    ColumnsTask,
    LookTask,
    LookupTask,
    MarkdownTask,
    ProfileTask,
    ReadTask,
    StandingTask,
    StepTask,
    TableRef,
    TailTask,
    Task,
    answer_too_long,
    schema_of,
)
from .profile_rows import last_rows, last_standing, profiled
from .wire import Wire


def step_hashes(view: View, projection: Projection, first: int) -> Iterator[bytes]:
    """Yield `ROW`s (hashes) of the rows from the offset `first` on.

    Raises:
        DatasetHasNoPrimaryKeys, UnknownColumn. UnreadableSlice: raised during the iteration.
    """
    key = _key(view, projection)
    new = tuple(each for each in view.slices if each[0].offset_interval.end >= first)
    narrow = narrowed(replace(view, slices=new))
    check_columns(key or (), narrow.schema)
    columns = matched_columns(narrow.schema, view.vocab, key)
    with tempfile.TemporaryDirectory(prefix="step-") as folder:
        scan = SliceScan(narrow, Path(folder), once=True, ahead=True, gathered=True)
        for rows in hashed(scan, view.vocab, columns, key, None):
            yield rows.tobytes()


def step_living(
    view: View, projection: Projection, touched: Offsets, first: int
) -> Iterator[bytes]:
    """Yield offsets of live rows among the touched ones (live before) and all from `first` on.

    Raises:
        UnusableKey, and the same errors as `step_hashes`.
    """
    key = _key(view, projection)
    if not view.slices:
        return
    end = view.slices[-1][0].offset_interval.end
    some = np.concatenate([touched, np.arange(first, end + 1, dtype=np.int64)])
    with tempfile.TemporaryDirectory(prefix="step-") as folder:
        whole = SliceScan(narrowed(view), Path(folder), ahead=True, gathered=True)

        def scan(
            columns: Sequence[str] | None, offsets: Offsets | None
        ) -> Iterator[pa.RecordBatch]:
            asked = some if first else None
            return whole(columns, asked if offsets is None else offsets)

        found = live_by_key(scan, view.vocab, key) if key else live_facts(scan, view.vocab)
        yield found.astype("<i8").tobytes()


def _key(view: View, projection: Projection) -> tuple[str, ...] | None:
    """Return the key columns by which rows are matched; None if whole rows are compared."""
    if projection is not Projection.STATE:
        return None
    if not view.key:
        raise dataset_has_no_primary_keys()
    return view.key


def looked_up(
    view: View,
    filters: Sequence[Filter],
    *,
    state: bool,
    limit: int,
    max_bytes: int,
    known: KnownBounds,
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
        scan = SliceScan(narrow, Path(folder), ahead=True)
        batches = _row_standing(scan, narrow.view) if state else scan(None, None)
        rows = list(_first(_fitting(batches, narrow), limit, max_bytes))
    return pa.Table.from_batches(rows, narrow.schema), narrow


def _row_standing(scan: SliceScan, view: View) -> Iterator[pa.RecordBatch]:
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
            raise answer_too_long(max_bytes)
        yield some


LEARNED_AT_ONCE = 1000
"""Limit of bounds in one frame; each takes some hundred bytes."""
Told = bytes | int | OpenedSlices | list[Learned]

_JSON = msgspec.json.Encoder(enc_hook=str)


def run(task: Task, objects: Wire) -> Iterator[Told]:
    """Yield the answer: its size if known, the opened slices, its bytes, the learned bounds."""
    answer: Iterator[Told] = _WORK[type(task)](task, objects)
    return answer


def _tail(task: TailTask, objects: Wire) -> Iterator[Told]:
    """Compute the whole answer before the first byte, so that a too long one can be refused."""
    schema = schema_of(task.schema)
    table = last_rows(
        [each.data() for each in task.slices],
        objects.open_whole,
        pa.schema([]) if schema is None else to_arrow(schema),
        skip=task.skip,
        limit=task.limit,
        max_bytes=task.max_bytes,
    )
    text = _JSON.encode(shaped(table, DataFormat(task.shape)))
    if len(text) > task.max_bytes:
        raise answer_too_long(task.max_bytes)
    yield len(text)
    yield text


class _Source:
    """The dataset as projections see it: only its objects, since the service has read the chain."""

    def __init__(self, head: Multihash, objects: Wire) -> None:
        self._head = head
        self.open_whole, self.require = objects.open_whole, objects.require
        self.open_each = objects.open_each

    def head(self) -> Multihash:
        return self._head

    def block_bytes(self, block: Multihash) -> bytes:
        raise NotImplementedError(str(block))

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self.open_whole(kind, object_hash)


def _read(task: ReadTask, objects: Wire) -> Iterator[Told]:
    """Stream the rows; break off if they exceed the limit of bytes."""
    reading = Reading(
        _view(task.table, objects), ReadRequest(**task.request), _known(task.table, objects)
    )
    yield OpenedSlices(reading.narrow.scanned, reading.narrow.total)
    sent = 0
    for chunk in reading:
        sent += len(chunk)
        if sent > task.max_bytes:
            raise answer_too_long(task.max_bytes, MAX_ANSWER)
        yield chunk
    yield from _learned(reading.narrow)


def _changed(task: ChangedTask, objects: Wire) -> Iterator[Told]:
    slices = [each.data() for each in task.slices]
    streams = objects.open_each(
        ObjectKind.DATA, ((each.physical_hash, each.size) for each in slices)
    )
    found = []
    for number, (data, stream) in enumerate(zip(slices, streams, strict=True)):
        with stream:
            if not only_adds(stream, task.operation, data.physical_hash):
                found.append(number)
    yield np.array(found, "<i8").tobytes()


def _lookup(task: LookupTask, objects: Wire) -> Iterator[Told]:
    """Compute the whole answer before the first byte, as for a tail."""
    table, narrow = looked_up(
        _view(task.table, objects),
        task.filters,
        state=task.state,
        limit=task.limit,
        max_bytes=task.max_bytes,
        known=_known(task.table, objects),
    )
    yield OpenedSlices(narrow.scanned, narrow.total)
    text = _JSON.encode(shaped(table, DataFormat(task.shape)))
    if len(text) > task.max_bytes:
        raise answer_too_long(task.max_bytes)
    yield len(text)
    yield text
    yield from _learned(narrow)


def _step(task: StepTask, objects: Wire) -> Iterator[Told]:
    view, projection = _view(task.table, objects), Projection(task.projection)
    if task.touched is None:
        yield from step_hashes(view, projection, task.first)
    else:
        touched = np.frombuffer(task.touched, "<i8")
        yield from step_living(view, projection, touched, task.first)


def _standing(task: StandingTask, objects: Wire) -> Iterator[Told]:
    table, count = last_standing(_view(task.table, objects), skip=task.skip, limit=task.limit)
    text = _JSON.encode([count, shaped(table, DataFormat.SOA)])
    if len(text) > task.max_bytes:
        raise answer_too_long(task.max_bytes)
    yield len(text)
    yield text


def _profile(task: ProfileTask, objects: Wire) -> Iterator[Told]:
    view = _view(task.table, objects)
    found = profiled(view, task.columns, known=task.known, cells=task.cells, rows=task.rows)
    if len(_JSON.encode(found.sample)) > task.max_bytes:
        found = msgspec.structs.replace(found, sample={})
    text = _JSON.encode(found)
    yield len(text)
    yield text


def _columns(task: ColumnsTask, _: Wire) -> Iterator[Told]:
    from . import text_work  # its parsers take long to import

    yield from _text(text_work.columns(task))


def _markdown(task: MarkdownTask, _: Wire) -> Iterator[Told]:
    from . import text_work

    yield from _text(text_work.page(task))


def _text(found: Any) -> Iterator[Told]:
    text = _JSON.encode(found)
    if len(text) > MAX_TEXT_BYTES:
        raise answer_too_long(MAX_TEXT_BYTES, "")
    yield len(text)
    yield text


def _view(table: TableRef, objects: Wire) -> View:
    head, schema = Multihash.parse(table.head), schema_of(table.schema)
    return View(
        source=_Source(head, objects),
        head=head,
        vocab=convert(table.vocab, Vocab),
        schema=None if schema is None else to_arrow(schema),
        slices=tuple((each.data(), Instant(each.system_time)) for each in table.slices),
        key=table.key,
    )


def _known(table: TableRef, objects: Wire) -> KnownBounds:
    """Return the learned bounds, and the node's index if it is of the same history."""
    schema = schema_of(table.schema)
    if schema is None:
        return KnownBounds(bounds=table.bounds, indices=[])
    indices = own_slice_indices(objects.open_index, table.index, to_arrow(schema))
    return KnownBounds(bounds=table.bounds, indices=indices)


def _learned(narrow: Narrowed) -> Iterator[list[Learned]]:
    """Yield the learned bounds in pieces, since the service decodes each piece at once."""
    left = iter(narrow.learned.items())
    while some := list(islice(left, LEARNED_AT_ONCE)):
        yield [(*place, bounds) for place, bounds in some]


def _look(task: LookTask, objects: Wire) -> Iterator[Told]:
    """Propose a dataset for an uploaded file, which may be anything."""
    with objects.open_whole(ObjectKind.UPLOAD, Multihash.parse(task.file)) as stream:
        sample = sample_of_stream(task.file_name, stream, most=task.most)
    yield written(propose(sample, chosen(task.given, name=task.name)))


_WORK: dict[type[Any], Any] = {
    LookTask: _look,
    TailTask: _tail,
    ReadTask: _read,
    ChangedTask: _changed,
    LookupTask: _lookup,
    StepTask: _step,
    StandingTask: _standing,
    ProfileTask: _profile,
    ColumnsTask: _columns,
    MarkdownTask: _markdown,
}
