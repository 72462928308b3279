"""Work of the event loop, waited for by the thread of a call.

A call whose client has left, or whose service stops, gives its work up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, wait
from threading import Event
from typing import Any, TypeVar

from odf_node.protocol.errors import Unavailable

T = TypeVar("T")
LOOK_S = 0.1
"""How often a waiting thread asks whether its client is still there."""


class CallGivenUp(Unavailable):
    """Work of a call that nobody waits for, or that the service does not begin any more."""


class Bridge:
    """To the loop that serves everything else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stopping = Event()

    def stop(self) -> None:
        """Nothing is begun any more, and what is under way is given up."""
        self._stopping.set()

    def result(self, work: Callable[[], Awaitable[T]], has_left: Callable[[], bool]) -> T:
        """What the work gives or raises.

        What was done when it was to be given up is given all the same, so that it can be closed.

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
        """The work, which nobody waits for; also while the service stops."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(work(), self._loop)

    def later(
        self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[], None]:
        """The work, unless what is returned was called before."""
        timers: list[asyncio.TimerHandle] = []
        self.soon(lambda: timers.append(self._loop.call_later(seconds, self.start, work)))
        return lambda: self.soon(lambda: timers[0].cancel())

    def soon(self, work: Callable[[], object]) -> None:
        """The work, by the thread of the loop; nothing once that is closed."""
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
