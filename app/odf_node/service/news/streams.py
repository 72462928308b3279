"""Streams of news: send one listener all news from a position on, while it may read them.

The rows of a block as JSON, for streams that include them: read once for all listeners.

A slice never changes, so listeners share a running read, and the last results are cached.

Check repeatedly during a stream whether the listener may still read the datasets.

While a stream is open, tokens may be revoked, roles removed, and datasets hidden or deleted. The
checks of all listeners are batched.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from starlette.types import Message, Receive, Scope, Send

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.records import DataFormat

from ..auth.actors import ANONYMOUS, Actor
from ..auth.dataset_access import Callers, DatasetAccess
from ..http.answers import StreamedAnswer
from ..limits.shares import Coalescer, Slots
from ..readers.messages import Materials
from ..readers.pool import Readers, ReadRefused
from ..readers.tasks import SliceRef, TailTask, schema_data
from .feeds import ChainFeed, ChainPosition, LogFeed, LogPosition, Page, SealedPositions
from .head_watch import HeadWatch
from .notices import KEEP_ALIVE, NewsNotice

EVENTS_MAX_ROW_BYTES = 1 << 20
"""Most bytes these rows may have as JSON."""

EVENTS_MAX_ROWS = 1_000
"""Most rows one event of a stream carries; of more it has none."""

KEPT = 16
CALLER = "events"
"""All streams together count as one caller of readers, so that they use only one caller's share."""


class RowTexts:
    """Reads and caches rows as JSON, for coroutines of one event loop."""

    def __init__(self, stores: Stores, readers: Readers, *, max_rows: int, max_bytes: int) -> None:
        self._stores, self._readers = stores, readers
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._texts: OrderedDict[tuple[DatasetId, Multihash], asyncio.Task[bytes | None]]
        self._texts = OrderedDict()

    async def of(self, dataset: DatasetId, data: DataSlice) -> bytes | None:
        """Return a JSON array of records; None if they exceed the limits of a notice.

        Raises:
            The same errors as `Readers.answer`.
        """
        interval = data.offset_interval
        if interval.count > self._max_rows:
            return None
        key = (dataset, data.physical_hash)
        known = self._texts.get(key)
        if known is None or (known.done() and known.exception() is not None):
            known = asyncio.create_task(self._read(dataset, data))
            self._texts[key] = known
            while len(self._texts) > KEPT:
                self._texts.popitem(last=False)
        return await asyncio.shield(known)

    async def _read(self, dataset: DatasetId, data: DataSlice) -> bytes | None:
        found = await asyncio.to_thread(self._stores.dataset, DatasetRef(id=dataset))
        schema = await asyncio.to_thread(lambda: found.state(found.head()).data_schema)
        task = TailTask(
            slices=[SliceRef.of(data)],
            schema=schema_data(schema),
            skip=0,
            limit=self._max_rows,
            shape=DataFormat.AOS.value,
            max_bytes=self._max_bytes,
        )
        materials = Materials(found, self._stores.projections)
        try:
            answer = await self._readers.answer(task, materials, CALLER)
            return b"".join([piece async for piece in answer])
        except ReadRefused as refused:
            if refused.failed.error == "AnswerTooLong":
                return None
            raise


Question = tuple[str | None, frozenset[DatasetId]]
"""A bearer token, and datasets."""


@dataclass(frozen=True)
class Rights:
    """Looks up tokens and datasets in the index, without the caches."""

    callers: Callers
    access: DatasetAccess
    allow_anonymous: bool

    def readable(self, questions: Sequence[Question]) -> list[frozenset[DatasetId] | Exception]:
        """Return for each question the datasets that the bearer may read now."""
        bearers = sorted({bearer for bearer, _ in questions if bearer is not None})
        actors: dict[str | None, Actor | Exception] = {None: ANONYMOUS}
        if bearers:
            actors |= zip(bearers, self.callers.identify_all(bearers), strict=True)
        wanted = frozenset[DatasetId]().union(*(datasets for _, datasets in questions))
        with self.access.reading() as reader:
            entries = reader.registry.find_all(wanted)
        answers: dict[Question, frozenset[DatasetId] | Exception] = {}
        for bearer, datasets in set(questions):
            actor = actors[bearer]
            if isinstance(actor, Exception):
                answers[bearer, datasets] = actor
                continue
            known = [entries[each] for each in datasets if each in entries]
            answers[bearer, datasets] = frozenset(
                entry.id
                for entry in known
                if self._is_admitted(actor) and self.access.may_read(actor, entry)
            )
        return [answers[question] for question in questions]

    def _is_admitted(self, actor: Actor) -> bool:
        """Return whether the actor is admitted: a stream with a token that is no longer valid ends,
        even if anonymous callers may read."""
        if actor.is_anonymous:
            return self.allow_anonymous and actor.bearer is None
        return True


EVENTS_KEEP_ALIVE_S = 3.0
"""Seconds of silence after which a stream of news says that it is there."""

RETRY = b"retry: 1000\n"
"""Milliseconds after which a browser reconnects; part of the first frame, see `KEEP_ALIVE`."""
TOGETHER = 4096
"""Limit of listeners' questions in one batch; most of them are equal."""
PIECE_BYTES = 64 * 1024
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, kw_only=True)
class StreamListener:
    """One listener: its actor, and the datasets it listens to."""

    actor: Actor
    dataset: DatasetId | None
    """None means all datasets of the node."""
    only: frozenset[DatasetId] | None = None
    """Selected datasets of the node; None means all."""
    rows: bool = False
    """Whether notices include the rows of their blocks."""


@dataclass(frozen=True)
class Streams:
    """The parts that all listeners of a process share."""

    watch: HeadWatch
    chain_feed: ChainFeed
    log_feed: LogFeed
    positions: SealedPositions
    rights: Rights
    row_texts: RowTexts
    slots: Slots
    keep_alive_s: float
    idle_s: float
    """Seconds for which a client may read nothing."""
    _chain: Coalescer[ChainPosition, Page] = field(init=False)
    _log: Coalescer[LogPosition, Page] = field(init=False)
    _rights: Coalescer[Question, frozenset[DatasetId]] = field(init=False)

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "_chain", Coalescer(self.chain_feed.pages, most=TOGETHER))
        set_once(self, "_log", Coalescer(self.log_feed.pages, most=TOGETHER))
        set_once(self, "_rights", Coalescer(self.rights.readable, most=TOGETHER))

    async def page(self, position: ChainPosition | LogPosition) -> Page:
        """Return the news after the position, as of now or later."""
        if isinstance(position, ChainPosition):
            return await self._chain.ask(position)
        return await self._log.ask(position)

    async def readable(self, actor: Actor, datasets: frozenset[DatasetId]) -> frozenset[DatasetId]:
        """Return those of the datasets that the actor may read now."""
        return await self._rights.ask((actor.bearer, datasets))


async def frames(
    streams: Streams,
    listener: StreamListener,
    position: ChainPosition | LogPosition,
    first: NewsNotice | None,
) -> AsyncIterator[bytes]:
    """Yield pieces of the stream after `position`; `first` sends the position to a new client."""
    yield RETRY + first.frame() if first is not None else KEEP_ALIVE
    begun = first is not None
    with streams.watch.listening(listener.dataset) as moved:
        while not streams.watch.is_over:
            moved.clear()
            page = await streams.page(position)
            if page.notices:
                # Checked after the page was read, so that the listener may read what we send.
                allowed = await _readable(streams, listener, page)
                if allowed is None:
                    return
                async for piece in _pieces(streams, listener, page.notices, allowed):
                    yield piece if begun else RETRY + piece
                    begun = True
            position = page.position
            while page.is_last and not moved.is_set():
                try:
                    async with asyncio.timeout(streams.keep_alive_s):
                        await moved.wait()
                except TimeoutError:
                    if await _readable(streams, listener, page) is None:
                        return
                    yield KEEP_ALIVE


async def _readable(
    streams: Streams, listener: StreamListener, page: Page
) -> frozenset[DatasetId] | None:
    """Return the datasets of the page that the listener may read; None if the stream must end."""
    wanted = (
        frozenset({listener.dataset})
        if listener.dataset is not None
        else frozenset(each.dataset for each in page.notices if each.dataset is not None)
    )
    if listener.only is not None:
        wanted &= listener.only
    found = await streams.readable(listener.actor, wanted)
    return None if listener.dataset is not None and not found else found


async def _pieces(
    streams: Streams,
    listener: StreamListener,
    notices: Sequence[NewsNotice],
    allowed: frozenset[DatasetId],
) -> AsyncIterator[bytes]:
    """Yield the frames of the notices; small frames are joined."""
    piece = b""
    for notice in notices:
        if notice.dataset not in allowed:
            continue
        rows = None
        if listener.rows and notice.data is not None and notice.dataset is not None:
            rows = await streams.row_texts.of(notice.dataset, notice.data)
        piece += notice.frame(rows)
        if len(piece) >= PIECE_BYTES:
            yield piece
            piece = b""
    if piece:
        yield piece


class EventStream(StreamedAnswer):
    """An endless response, which releases its slot when it is closed."""

    def __init__(
        self, pieces: AsyncIterator[bytes], idle_s: float, give_back: Callable[[], None]
    ) -> None:
        super().__init__(pieces, 200, HEADERS, EVENT_STREAM)
        self._idle_s, self._give_back = idle_s, give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; raise `ListenerTooSlow` if the client reads nothing for too long."""

        async def timed(message: Message) -> None:
            try:
                async with asyncio.timeout(self._idle_s):
                    await send(message)
            except TimeoutError:
                raise NodeError("ListenerTooSlow", "a listener took nothing for too long") from None

        await super().__call__(scope, receive, timed)

    async def finished(self) -> None:
        self._give_back()
