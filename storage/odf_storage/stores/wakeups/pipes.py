"""Wake-ups between the processes of one machine: a named pipe for each waiting process.

The pipes are in one folder, and a wake-up writes one byte into every pipe of its topic. A pipe
without a reader is a leftover of a killed process; the next wake-up removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import time
from pathlib import Path

import sqlalchemy as sa

from .port import Closing, Listener, Topic

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
