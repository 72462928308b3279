"""The port of the bells, and one that rings inside of a process.

Who listens before looking misses nothing that happens after. Still, a ring may be lost, and
one may come for nothing: whoever waits looks again by itself from time to time.
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


class Listener(Protocol):
    """One who waits; for use in one thread."""

    def wait(self, seconds: float) -> bool:
        """Wait for a ring since the last call; False when the time was up."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None: ...


class WakeUp(Protocol):
    """`announce` belongs into the transaction of a change, `ring` behind its end."""

    def announce(self, db: sa.Connection, topic: Topic) -> None: ...
    def ring(self, topic: Topic) -> None: ...
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
    """Rings for threads of this process."""

    def __init__(self) -> None:
        self._listeners: list[_Waiter] = []

    def announce(self, db: sa.Connection, topic: Topic) -> None:
        """Nothing: the ring comes after."""

    def ring(self, topic: Topic) -> None:
        for listener in list(self._listeners):
            if listener.topic is topic:
                listener.rung.set()

    def listen(self, topic: Topic) -> Listener:
        listener = _Waiter(self._listeners, topic)
        self._listeners.append(listener)
        return listener


class _Waiter(Closing):
    def __init__(self, listeners: list[_Waiter], topic: Topic) -> None:
        self.topic, self.rung = topic, threading.Event()
        self._listeners = listeners

    def wait(self, seconds: float) -> bool:
        rung = self.rung.wait(seconds)
        self.rung.clear()
        return rung

    def close(self) -> None:
        if self in self._listeners:
            self._listeners.remove(self)
