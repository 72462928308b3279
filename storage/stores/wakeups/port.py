"""The port of wake-ups, and an adapter for the threads of one process.

A process that listens before it looks misses nothing that happens after. Still, a wake-up may be
lost, and one may come for nothing: a waiting process looks again by itself from time to time.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

import sqlalchemy as sa


class Topic(StrEnum):
    """What somebody may wait for."""

    WORK = "work"
    """A job was submitted, or may start now."""
    ENDED = "ended"
    """A job has ended, or got further."""
    MOVED = "moved"
    """A head has moved, or a dataset was created."""


class Listener(Protocol):
    """Waits for wake-ups; for use in one thread."""

    def wait(self, seconds: float) -> bool:
        """Wait for a wake-up since the last call; False when the time was up."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None: ...


class WakeUp(Protocol):
    """`announce` belongs into the transaction of a change, `send` behind its end."""

    def announce(self, db: sa.Connection, topic: Topic) -> None: ...
    def send(self, topic: Topic) -> None: ...
    def listen(self, topic: Topic) -> Listener: ...


class Closing:
    """The end of a listener by `with`."""

    def close(self) -> None:
        """Nothing is kept by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


class MemoryWakeUp:
    """Wakes threads of this process."""

    def __init__(self) -> None:
        self._listeners: list[_Waiter] = []

    def announce(self, db: sa.Connection, topic: Topic) -> None:
        """Nothing: `send` comes after."""

    def send(self, topic: Topic) -> None:
        for listener in list(self._listeners):
            if listener.topic is topic:
                listener.woken.set()

    def listen(self, topic: Topic) -> Listener:
        listener = _Waiter(self._listeners, topic)
        self._listeners.append(listener)
        return listener


class _Waiter(Closing):
    def __init__(self, listeners: list[_Waiter], topic: Topic) -> None:
        self.topic, self.woken = topic, threading.Event()
        self._listeners = listeners

    def wait(self, seconds: float) -> bool:
        woken = self.woken.wait(seconds)
        self.woken.clear()
        return woken

    def close(self) -> None:
        if self in self._listeners:
            self._listeners.remove(self)
