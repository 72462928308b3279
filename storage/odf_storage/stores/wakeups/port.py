"""The port of wake-ups, and an adapter for the threads of one process.

A process that starts to listen before it checks for changes misses no later change. Still, a
wake-up may be lost or spurious, so waiting processes also check regularly by themselves.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

import sqlalchemy as sa


class Topic(StrEnum):
    """The events that a process may wait for."""

    WORK = "work"
    """A job was submitted, or may start now."""
    ENDED = "ended"
    """A job has ended or reported progress."""
    MOVED = "moved"
    """A head has moved, or a dataset was created."""


class Listener(Protocol):
    """Waits for wake-ups, in one thread."""

    def wait(self, seconds: float) -> bool:
        """Wait for a wake-up since the last call; return False after the given time."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None: ...


class WakeUp(Protocol):
    """Sends wake-ups: `announce` inside the transaction of a change, `send` after its commit."""

    def announce(self, db: sa.Connection, topic: Topic) -> None: ...
    def send(self, topic: Topic) -> None: ...
    def listen(self, topic: Topic) -> Listener: ...


class Closing:
    """Makes a listener a context manager that closes it."""

    def close(self) -> None:
        """Do nothing by default."""

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
        """Do nothing, because `send` follows."""

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
