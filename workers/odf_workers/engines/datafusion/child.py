"""The parent's side of a process for one query: start it, talk to it, watch it, and end it.

This side enforces the limits of time and memory: it checks both while it reads from the process,
and kills a process that exceeds one. `Rules` has the limits that the kernel enforces.

The messages between a worker and its process for a query on DataFusion.

Each message is one frame. The worker sends an `EngineQuestion`. The process answers with a
`ResultHead`, batches and an `End`; or with an `End` alone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from odf_storage.runtime.children import Born

from ..port.port import EngineListener

LOOK_S = 0.1
"""Seconds between two checks of the limits of a process."""
FRAME = struct.Struct("=cQ")
"""The header of each frame: its kind and its length in bytes."""
_PIECE_BYTES = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ChildGone(Exception):
    """The process ended without its last frame: killed by a signal, or with an exit code."""

    def __init__(self, number: int | None) -> None:
        super().__init__(number)
        self.signal = number

    def __str__(self) -> str:
        if self.signal is None:
            return "its process ended before it had answered"
        return f"its process was ended by {signal.Signals(self.signal).name}"


class TooMuchMemory(Exception):
    """The process exceeded its memory limit, and was killed."""


class TooLate(Exception):
    """The process exceeded its time limit, or nobody waits for it any more, and was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The limits for which the parent kills a process."""

    seconds: float
    memory: int
    """Bytes that it may take beyond those that it shared with its spawner at the start."""
    frame: int
    """Bytes of the longest frame that it may send."""


class Child:
    """One child, held to the limits of `watch` from its birth to the end of the context."""

    def __init__(self, born: Born, watch: Watch, listener: EngineListener) -> None:
        self._born, self._watch, self._listener = born, watch, listener
        self._stopped = threading.Event()
        self._deadline = time.monotonic() + watch.seconds
        self._next_look = 0.0
        self._shared = self._memory()

    def __enter__(self) -> Child:
        self._listener.stops(self._stopped.set)
        self._born.link.setblocking(False)
        return self

    def __exit__(self, *_: object) -> None:
        self._born.kill()  # the caller removes its files afterwards

    @property
    def pid(self) -> int:
        return self._born.pid

    def send(self, kind: bytes, content: bytes) -> None:
        """Send one frame. Raises the same errors as `frames`."""
        left = memoryview(FRAME.pack(kind, len(content)) + content)
        while left:
            try:
                left = left[self._born.link.send(left) :]
            except BlockingIOError:
                self._look([], [self._born.link])
            except OSError:
                raise ChildGone(self._born.ending_signal()) from None

    def frames(self) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the frames that the process sends, as kind and content. The reader has to know
        which one is the last.

        Raises:
            ChildGone: the process ended.
            TooLate, TooMuchMemory: the process exceeded a limit and is killed.
            …: any error of the listener's `progress`.
        """
        while True:
            kind, length = FRAME.unpack(self._read(FRAME.size))
            if length > self._watch.frame:
                raise TooMuchMemory
            yield kind, self._read(length)

    def _read(self, length: int) -> memoryview:
        content = bytearray()
        while len(content) < length:
            try:
                piece = self._born.link.recv(min(length - len(content), _PIECE_BYTES))
            except BlockingIOError:
                self._look([self._born.link], [])
                continue
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise ChildGone(self._born.ending_signal())
            content += piece
            self._judge()
        return memoryview(content)

    def _look(self, reads: list[socket.socket], writes: list[socket.socket]) -> None:
        select.select(reads, writes, [], LOOK_S)
        self._judge()

    def _judge(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_S
        self._listener.progress()
        if self._stopped.is_set() or now > self._deadline:
            raise TooLate
        if self._memory() - self._shared > self._watch.memory:
            raise TooMuchMemory

    def _memory(self) -> int:
        """Return its resident memory in bytes; 0 if it has ended."""
        try:
            resident = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(resident) * _PAGE_BYTES


QUESTION, HEAD, BATCH, END = b"Q", b"H", b"B", b"E"


class TableSource(msgspec.Struct, frozen=True, kw_only=True):
    """A view over Parquet files. `columns` are its columns in their order; None means all."""

    name: str
    paths: list[str]
    columns: list[str] | None = None
    number: int | None = None
    """If given, rows have the hidden column `ROW`, computed from this number and their offset."""
    offset: str = "offset"
    """Name of the offset column."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    alias: str | None = None


class EngineQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The query, the rules of confinement, and the folder for spilled rows."""

    sources: list[TableSource]
    steps: list[Step]
    rules: str
    spill: str
    pool: int
    """Bytes of rows that the engine may keep in memory before it spills them."""
    iterates: bool
    """Whether this is one iteration of a derivative; each row then depends on one input row."""
    operation: str | None = None
    """The operation column of the result, if the sources have rows that are changes."""


class ResultHead(msgspec.Struct, frozen=True, kw_only=True):
    schema: bytes
    """The Arrow schema of the rows, serialized."""
    splits: bool = False
    """Whether it is unknown which rows of the result form a correction."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an answer. Without a reason, all rows were sent."""

    refused: str | None = None
    """What is wrong with the query; `facts` has details."""
    facts: dict[str, Any] = {}
    failed: str | None = None
    """What is wrong with the engine."""
    starved: bool = False
    """Whether the process ran out of memory."""


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)
