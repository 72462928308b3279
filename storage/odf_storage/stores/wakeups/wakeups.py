"""Wake-ups between the processes of one machine: a named pipe for each waiting process.

The pipes are in one folder, and a wake-up writes one byte into every pipe of its topic. A pipe
without a reader is a leftover of a killed process; the next wake-up removes it.

The port of wake-ups, and an adapter for the threads of one process.

A process that starts to listen before it checks for changes misses no later change. Still, a
wake-up may be lost or spurious, so waiting processes also check regularly by themselves.

Wake-ups between all processes on one PostgreSQL, by `NOTIFY` and `LISTEN`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import threading
import time
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import sqlalchemy as sa

from odf_protocol.errors import Unavailable


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


RING = b"!"
READ_BYTES = 4096
DEAF_S = 0.05


class PipeWakeUp:
    """`WakeUp` by named pipes in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def announce(self, db: sa.Connection, topic: Topic) -> None:
        """Do nothing, because `send` follows."""

    def send(self, topic: Topic) -> None:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - plain names
        except OSError:
            return
        for name in names:
            if name.startswith(f"{topic}-"):
                _ring(f"{self._folder}/{name}")

    def listen(self, topic: Topic) -> Listener:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return _PipeListener(self._folder / f"{topic}-{os.getpid()}-{secrets.token_hex(4)}")
        except OSError:  # the file system has no pipes, so the caller has to poll
            return _Deaf()


class _Deaf(Closing):
    """Never receives a wake-up, and only lets the time pass."""

    def wait(self, seconds: float) -> bool:
        time.sleep(min(DEAF_S, max(0.0, seconds)))
        return False


class _PipeListener(Closing):
    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(path, 0o600)
        # Opened for reading and writing: a pipe without any writer would report its end.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        if not self._poll.poll(max(0.0, seconds) * 1000):
            return False
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._pipe, READ_BYTES)) == READ_BYTES:
                pass
        return True

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._pipe)


def _ring(path: str) -> None:
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as broken:
        if broken.errno == errno.ENXIO:  # the pipe has no reader
            Path(path).unlink(missing_ok=True)
        return
    try:
        # full: a wake-up is pending already; broken: its reader has just closed it
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(pipe, RING)
    finally:
        os.close(pipe)


CHANNEL = "odf_node_"


class PostgresWakeUp:
    """`WakeUp` by LISTEN and NOTIFY."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def announce(self, db: sa.Connection, topic: Topic) -> None:
        db.execute(sa.select(sa.func.pg_notify(CHANNEL + topic, "")))

    def send(self, topic: Topic) -> None:
        """Do nothing, because the commit has sent the notification."""

    def listen(self, topic: Topic) -> Listener:
        return _PostgresListener(self._engine, CHANNEL + topic)


class _PostgresListener(Closing):
    """A private connection, opened again when it breaks."""

    def __init__(self, engine: sa.Engine, channel: str) -> None:
        self._engine, self._channel = engine, channel
        self._connection: Any = None
        with contextlib.suppress(sa.exc.DBAPIError, Unavailable):
            self._open()

    def wait(self, seconds: float) -> bool:
        began = time.monotonic()
        try:
            for _ in self._open().notifies(timeout=seconds, stop_after=1):
                return True
        except Exception:  # the server restarts: wait for the time, as if there was no wake-up
            self.close()
            time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        return False

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None

    def _open(self) -> Any:
        if self._connection is None:
            fairy = self._engine.raw_connection()
            connection: Any = fairy.driver_connection
            fairy.detach()
            connection.autocommit = True
            connection.execute(f"LISTEN {self._channel}")
            self._connection = connection
        return self._connection
