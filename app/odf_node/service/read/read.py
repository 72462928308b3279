"""Read a dataset as a table: parse the request, and encode rows as bytes.

Other systems swap the names of the two cuts. Here AS AT means when something was known (a system
time, or a block), and AS OF means when it happened (an event time).

Plan how a reader reads the last records of a dataset, from its newest slices only.

Whether a dataset has rows that were taken back: if not, its changelog is its current rows.

A node keeps with each dataset which of its blocks retract or correct rows (`versions`), so only
slices that came since are looked into. Blocks never change, so answers are remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from anyio import to_thread

from odf_protocol.errors import BadInput, LimitExceeded, NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant, MalformedInstant
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.pruning.bounds import LearnedBounds
from odf_storage.datasets.pruning.filters import Filter, parsed_filter
from odf_storage.datasets.read.formats import Format, encoded
from odf_storage.datasets.read.records import DataFormat
from odf_storage.datasets.read.view import Outline
from odf_storage.runtime.logs import line
from odf_storage.stores.ports.values import DatasetEntry

from ..readers.messages import Materials
from ..readers.pool import Readers
from ..readers.tasks import ReadTask, SliceRef, TableRef, TailTask, schema_data
from .outlines import Beside, Outlines

if TYPE_CHECKING:
    from odf_storage.datasets.read.read import Asked
    from odf_storage.datasets.read.scan import Known
    from odf_storage.datasets.read.view import View


CHANGELOG, FACTS = "changelog", "facts"


class InvalidTime(BadInput):
    """A time is neither an RFC 3339 instant nor, where one is allowed, the hash of a block."""


class InvalidProjection(BadInput):
    """The name of a projection or format is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request as text; without any parameters it means all current rows."""

    as_at: str | None = None
    as_of: str | None = None
    projection: str | None = None
    """Default: `facts`, the current rows."""
    columns: str | None = None
    """Names of columns, separated by commas."""
    skip: int = 0
    limit: int | None = None
    form: str = Format.NDJSON.value
    filters: Sequence[str] = ()
    """Each as `column:operator:value`; a row must satisfy all of them."""

    def block(self) -> Multihash | None:
        """Return the block if `as_at` names one. Raises `InvalidTime`."""
        return None if self.as_at is None else _known(self.as_at)[1]

    def asked(self) -> Asked:
        """Parse the request. Raises `InvalidTime`, `InvalidProjection`, `MalformedFilter`."""
        from odf_storage.datasets.read.read import Asked
        from odf_storage.datasets.read.rows import Cut, Projection

        try:
            projection = Projection(self._projection)
        except ValueError:
            known = ", ".join(Projection)
            raise InvalidProjection(
                f"a projection is one of {known}, not {str(self.projection)[:50]!r}"
            ) from None
        cut = Cut(
            system_time=None if self.as_at is None else _known(self.as_at)[0],
            event_time=None if self.as_of is None else _time(self.as_of, "as of"),
        )
        names = None if self.columns is None else tuple(self.columns.split(","))
        return Asked(
            projection=projection,
            cut=cut,
            columns=names,
            filters=self.parsed_filters(),
            skip=self.skip,
            limit=self.limit,
        )

    @property
    def is_of_facts(self) -> bool:
        return self._projection == FACTS

    @property
    def _projection(self) -> str:
        return (self.projection or FACTS).strip().lower()

    def parsed_filters(self) -> tuple[Filter, ...]:
        """Return the parsed filters. Raises `MalformedFilter`."""
        return tuple(parsed_filter(each) for each in self.filters)

    def format(self) -> Format:
        """Return the format of the rows. Raises `InvalidProjection`."""
        try:
            return Format(self.form.strip().lower())
        except ValueError:
            known = ", ".join(Format)
            raise InvalidProjection(f"a format is one of {known}, not {self.form[:50]!r}") from None


def _known(text: str) -> tuple[Instant | None, Multihash | None]:
    """Parse the text as a block hash, else as a system time."""
    try:
        return None, Multihash.parse(text.strip())
    except (MalformedHash, MalformedMultibase):
        return _time(text, "as at"), None


def _time(text: str, name: str) -> Instant:
    try:
        return Instant.parse(text.strip())
    except MalformedInstant as broken:
        raise InvalidTime(f"{name}: {broken.message}") from None


class Reading:
    """Rows as bytes, whose first piece is already encoded. Close it, or read it to its end."""

    def __init__(self, view: View, request: ReadRequest, known: Known | None = None) -> None:
        """Begin to read. Facts about slices in `known` save opening some of them."""
        from odf_storage.datasets.read.read import narrowed_for, rows_of
        from odf_storage.datasets.read.scan import NOTHING_KNOWN

        self.head, self.form, asked = view.head, request.format(), request.asked()
        self.narrow = narrowed_for(view, asked, known or NOTHING_KNOWN)
        self._open = ExitStack()
        try:
            schema, batches = self._open.enter_context(rows_of(self.narrow, asked))
            self._chunks = encoded(schema, batches, self.form)
            self._first = next(self._chunks, b"")
        except BaseException:
            self._open.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        with self._open:
            yield self._first
            yield from self._chunks

    def close(self) -> None:
        self._open.close()


@dataclass(frozen=True)
class Tables:
    """Describes datasets of this node as tables for readers, with known bounds of their slices."""

    stores: Stores
    outlines: Outlines
    bounds: LearnedBounds

    def of(
        self, entry: DatasetEntry, block: Multihash | None, filters: Sequence[Filter]
    ) -> tuple[TableRef, Materials]:
        """Return the table as of a block, with known bounds of the filtered columns, and the source
        of its objects. Raises `BlockNotFound`."""
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        outline, index = self.outlines.of(dataset, block, indexed=bool(filters))
        vocab = {
            name: getattr(outline.vocab, name)
            for name in outline.vocab.__struct_fields__
            if name != "event"
        }
        slices = [SliceRef.of(data, recorded) for data, recorded in outline.slices]
        columns = [each.column for each in filters]
        table = TableRef(
            head=str(outline.head),
            vocab=vocab,
            schema=schema_data(outline.schema),
            slices=slices,
            key=outline.key,
            bounds=self.bounds.of(
                str(dataset.id), columns, [each.physical_hash for each in slices]
            ),
            index=index,
        )
        return table, Materials(dataset, self.stores.projections)


def read_task(
    tables: Tables, entry: DatasetEntry, request: ReadRequest, *, max_bytes: int
) -> tuple[ReadTask, Materials]:
    """Return the task of a reader for this request, and the source of the dataset's objects.

    Raises:
        InvalidTime, MalformedFilter. BlockNotFound: the dataset does not have the AS AT block.
    """
    table, materials = tables.of(entry, request.block(), request.parsed_filters())
    return ReadTask(table=table, request=asdict(request), max_bytes=max_bytes), materials


MAX_TAIL_BYTES = 32 << 20
"""Most bytes of records answered by one tail request or look-up; more: 413."""

MAX_TAIL_RECORDS = 10_000
"""Most records answered (skipped ones included) by one tail request, or by one look-up."""

BLOCKS_A_LOOK = 100


class TooManyRecords(LimitExceeded):
    """The request asks for more records than one request may read."""


@dataclass(frozen=True)
class Tails:
    """The stores of last records, and the limits of one request."""

    stores: Stores
    max_records: int
    max_bytes: int


def tail_task(
    tails: Tails,
    entry: DatasetEntry,
    *,
    skip: int,
    limit: int,
    shape: DataFormat,
    max_bytes: int | None = None,
) -> tuple[TailTask, Materials, DataSchema | None]:
    """Plan to read the `limit` records before the last `skip`, in offset order, as JSON of a shape.

    Return the task of a reader, the source of its objects, and the schema.

    Raises:
        TooManyRecords: `skip + limit` above the node's limit.
    """
    most = tails.max_records
    if skip + limit > most:
        raise TooManyRecords(
            f"skip and limit may add up to {most}; page through offsets instead",
            limit=most,
        )
    dataset = tails.stores.dataset(DatasetRef(id=entry.id))
    schema = dataset.state(dataset.head()).data_schema
    slices = _newest_slices(tails.stores, entry, skip + limit)
    task = TailTask(
        slices=[SliceRef.of(piece) for piece in reversed(slices)],
        schema=schema_data(schema),
        skip=skip,
        limit=limit,
        shape=shape.value,
        max_bytes=tails.max_bytes if max_bytes is None else max_bytes,
    )
    return task, Materials(dataset, tails.stores.projections), schema


async def last_rows(
    tails: Tails,
    readers: Readers,
    entry: DatasetEntry,
    caller: str,
    *,
    skip: int,
    limit: int,
    max_bytes: int,
) -> dict[str, list[Any]]:
    """Return the `limit` records before the last `skip`, as JSON values, column by column.

    Raises:
        TooManyRecords, and the same errors as `Readers.answer`.
    """
    plan = partial(
        tail_task, tails, entry, skip=skip, limit=limit, shape=DataFormat.SOA, max_bytes=max_bytes
    )
    task, source, _ = await to_thread.run_sync(plan)
    if not task.slices:
        return {}
    answer = await readers.answer(task, source, caller)
    text = b"".join([piece async for piece in answer])
    return decode_json(text, dict[str, list[Any]])


def _newest_slices(stores: Stores, entry: DatasetEntry, wanted: int) -> list[DataSlice]:
    """Return the newest slices, newest first, until they have `wanted` records."""
    found: list[DataSlice] = []
    start = stores.refs.head(entry.id)
    have = 0
    while have < wanted:
        blocks = stores.blocks.ancestors(entry.id, start, limit=BLOCKS_A_LOOK)
        for block in blocks:
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                found.append(event.new_data)
                have += rows_of(event.new_data)
                if have >= wanted:
                    return found
        if not blocks or blocks[-1].prev is None:
            return found
        start = blocks[-1].prev
    return found


def rows_of(piece: DataSlice) -> int:
    interval = piece.offset_interval
    return interval.end - interval.start + 1


MAX_REMEMBERED = 10_000
"""Limit of blocks that are remembered."""
_log = logging.getLogger("odf.read")


class ChangedBlocks(Protocol):
    """Port to the blocks of datasets that retract or correct rows."""

    async def first_changed(self, entry: DatasetEntry, caller: str, /) -> int | None:
        """Return the number of slices before the first one with such a row; None if there is none.

        Raises any error of reading slices.
        """


@dataclass(frozen=True)
class Current:
    """Tells whether rows of datasets were taken back. Use it in the thread of the event loop."""

    stores: Stores
    outlines: Outlines
    changed: ChangedBlocks
    remembered: dict[Multihash, bool] = field(default_factory=dict)
    """Whether rows were taken back up to a block with data."""
    beside: Beside = field(default_factory=Beside)

    async def takes_back_soon(self, entry: DatasetEntry, caller: str) -> bool | None:
        """Return whether rows were taken back up to the head; None if that has to be looked for in
        many slices. Then it is known later."""
        outline = await to_thread.run_sync(self._outlined, entry, None)
        return await self.beside.get(
            (entry.id, outline.head),
            lambda: self.takes_back(entry.id, outline, caller),
            slices=len(outline.slices),
        )

    async def takes_back(self, dataset: DatasetId, outline: Outline, caller: str) -> bool:
        """Return whether a row up to the block of the outline retracts or corrects another.

        Return True, too, if that cannot be told now: then the rows are compared by the reader or
        the engine, which gives the same rows later.
        """
        if not outline.slices:
            return False
        last = outline.blocks[-1]
        if last not in self.remembered:
            entry = await to_thread.run_sync(lambda: self.stores.dataset(DatasetRef(id=dataset)))
            try:
                first = await self.changed.first_changed(entry.entry, caller)
            except NodeError as unknown:
                _log.warning(line("rows taken back are not known", reason=unknown.message))
                return True
            if len(self.remembered) >= MAX_REMEMBERED:
                self.remembered.clear()
            self.remembered[last] = first is not None and first < len(outline.slices)
        return self.remembered[last]

    async def takes_back_upto(
        self, entry: DatasetEntry, block: Multihash | None, caller: str
    ) -> bool:
        """Return the same as `takes_back`, as of a block or the head. Raises `BlockNotFound`."""
        outline = await to_thread.run_sync(self._outlined, entry, block)
        return await self.takes_back(entry.id, outline, caller)

    def _outlined(self, entry: DatasetEntry, block: Multihash | None) -> Outline:
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        return self.outlines.of(dataset, block, indexed=False)[0]

    async def simplest(self, entry: DatasetEntry, asked: ReadRequest, caller: str) -> ReadRequest:
        """Return the request, or one for the changelog if that gives the same rows.

        Raises:
            InvalidTime, and `BlockNotFound`.
        """
        if not asked.is_of_facts:
            return asked
        if await self.takes_back_upto(entry, asked.block(), caller):
            return asked
        return replace(asked, projection=CHANGELOG)
