"""Bridge from the threads of calls to the event loop: a thread starts work there and waits for it.

When the client disconnects or the service stops, the work is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, wait
from threading import Event
from typing import Any, TypeVar

from odf_protocol.errors import Unavailable

T = TypeVar("T")
LOOK_S = 0.1
"""Seconds between two checks whether the client is still connected."""


class CallGivenUp(Unavailable):
    """The work of a call was cancelled because its client left, or the service is stopping."""


class Bridge:
    """Runs work in the event loop of the service, for other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stopping = Event()

    def stop(self) -> None:
        """Refuse new work, and cancel running work."""
        self._stopping.set()

    def result(self, work: Callable[[], Awaitable[T]], has_left: Callable[[], bool]) -> T:
        """Run the work in the event loop and wait for it. Return its result or raise its error.

        If the work finishes despite its cancellation, its result is returned, so that the caller
        can close it.

        Raises:
            CallGivenUp: the client left, or the service stops.
        """
        self._refuse_to_begin()
        task: list[asyncio.Task[Any] | None] = []

        async def begun() -> T:
            task.append(asyncio.current_task())
            return await work()

        future, is_given_up = asyncio.run_coroutine_threadsafe(begun(), self._loop), False
        while not wait([future], LOOK_S).done:
            if self._loop.is_closed():
                raise _stopping()
            if task and task[0] and not is_given_up and (has_left() or self._stopping.is_set()):
                is_given_up = True
                self._loop.call_soon_threadsafe(task[0].cancel)
        return self._outcome(future)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work in the event loop without waiting for it, even while the service stops."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(work(), self._loop)

    def later(
        self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[], None]:
        """Run the work after a delay. Return a function that cancels it."""
        timers: list[asyncio.TimerHandle] = []
        self.soon(lambda: timers.append(self._loop.call_later(seconds, self.start, work)))
        return lambda: self.soon(lambda: timers[0].cancel())

    def soon(self, work: Callable[[], object]) -> None:
        """Call the function in the thread of the event loop. Do nothing if the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def _outcome(self, future: Future[T]) -> T:
        if future.cancelled():
            self._refuse_to_begin()
            raise CallGivenUp("the client left before its answer")
        return future.result()

    def _refuse_to_begin(self) -> None:
        if self._stopping.is_set():
            raise _stopping()


def _stopping() -> CallGivenUp:
    return CallGivenUp("the node is stopping; try again later")
