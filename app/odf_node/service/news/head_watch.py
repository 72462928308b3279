"""Wait for moves of heads: one reader of the log for all listeners of this process.

A wake-up says that some head has moved; the log says which. If a wake-up is lost, or the store has
none, the log is read after a pause. While nobody listens, the log is not read.

Long polls: a request that knows the head waits until the head changes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.stores.index.sql import RefIndex
from odf_storage.stores.wakeups.wakeups import Topic, WakeUp

from ..limits.shares import Slots

PAGE = 1000
STOP_S = 2.0
LONGEST_REST_S = 0.2
"""Limit in seconds of the rest after reading the log. We rest as long as the read took, because on
PostgreSQL reads of the log and writers wait for each other."""
_log = logging.getLogger("odf.news")


class HeadWatch:
    """Watches the log in one event loop, from `start` to `stop`."""

    def __init__(self, moves: RefIndex, wake_up: WakeUp, *, pause_s: float) -> None:
        self._moves, self._wake_up, self._pause_s = moves, wake_up, pause_s
        self._listeners: dict[DatasetId | None, set[asyncio.Event]] = {}
        self._cursor: int | None = None
        """Number of the last line read; None while nobody listens."""
        self._wake = asyncio.Event()
        self._stopping = threading.Event()
        self._looking: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_over(self) -> bool:
        """Whether listeners must end because the node ends."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin to watch. Call this in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._looking = self._loop.create_task(self._look())
        self._thread = threading.Thread(target=self._listen, name="head-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Notify all listeners that the node ends. Call this in the event loop."""
        self._stopping.set()
        self._notify(list(self._listeners))

    async def stop(self) -> None:
        self.end()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        if self._thread is not None:
            self._wake_up.send(Topic.MOVED)
            await run_in_threadpool(self._thread.join, min(STOP_S, self._pause_s))

    @contextmanager
    def listening(self, dataset: DatasetId | None) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the head of the dataset (None: of any) has moved.

        A listener that reads the index after the start of this context, and again whenever the
        event is set, misses no move.
        """
        moved = asyncio.Event()
        self._listeners.setdefault(dataset, set()).add(moved)
        if self._cursor is None:
            self._wake.set()
        try:
            yield moved
        finally:
            self._listeners[dataset].discard(moved)
            if not self._listeners[dataset]:
                del self._listeners[dataset]

    def _listen(self) -> None:
        with self._wake_up.listen(Topic.MOVED) as listener:
            while not self._stopping.is_set():
                listener.wait(self._pause_s)
                with suppress(RuntimeError):  # the loop is closed
                    if self._loop is not None:
                        self._loop.call_soon_threadsafe(self._wake.set)

    async def _look(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._listeners:
                self._cursor = None
                continue
            began = time.monotonic()
            try:
                await self._read_on()
            except Exception:  # the database is busy or restarts: the next read may succeed
                _log.exception("the log of head moves was not read")
            await asyncio.sleep(min(LONGEST_REST_S, time.monotonic() - began))

    async def _read_on(self) -> None:
        if self._cursor is None:
            self._cursor = await run_in_threadpool(self._moves.log_end)
            self._notify(list(self._listeners))
            return
        is_last = False
        while not is_last:
            page = await run_in_threadpool(self._moves.moves, after=self._cursor, limit=PAGE)
            is_last = len(page) < PAGE
            if page:
                self._cursor = page[-1].number
                self._notify([None, *{move.dataset for move in page}])

    def _notify(self, moved: list[DatasetId | None]) -> None:
        for dataset in moved:
            for listener in self._listeners.get(dataset, ()):
                listener.set()


EVENTS_MAX_WAIT_S = 60.0
"""Most seconds a request may wait for another head of a dataset."""


@dataclass(frozen=True)
class HeadPolls:
    """Runs long polls, which share the log reader and the slots of listeners with streams."""

    watch: HeadWatch
    slots: Slots
    most_s: float

    async def other(
        self,
        dataset: DatasetId,
        known: Multihash,
        look: Callable[[], Awaitable[Multihash]],
        *,
        wait_s: float,
        caller: str,
        receive: Receive,
    ) -> Multihash:
        """Wait until the head differs from `known` and return it. Return `known` when the time is
        up, the client has disconnected, or the node ends. `look` checks the rights and reads the
        head.

        Raises:
            ShareTaken, AllTaken, and the errors of `look`.
        """
        until = time.monotonic() + min(wait_s, self.most_s)
        with self.slots.taken(caller), self.watch.listening(dataset) as moved:
            gone = asyncio.create_task(_gone(receive))
            try:
                while True:
                    moved.clear()
                    head = await look()
                    left_s = until - time.monotonic()
                    if head != known or left_s <= 0 or gone.done() or self.watch.is_over:
                        return head
                    waiting = asyncio.create_task(moved.wait())
                    both = (gone, waiting)
                    await asyncio.wait(both, timeout=left_s, return_when="FIRST_COMPLETED")
                    waiting.cancel()
            finally:
                gone.cancel()
                with suppress(asyncio.CancelledError):
                    await gone


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
