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
import subprocess
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from odf_storage.runtime.processes import PID, end_forked, ending_signal

from ...confine import environment, program
from ..port.port import EngineListener

START_S = 120.0
"""Seconds that a process may take to start; the first one waits until the engine is loaded."""
KILLED_S = 1.0
"""Seconds that a killed process may take to end."""
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


class Spawner:
    """Starts processes that answer one question each. They are forks of a spawner process, which
    has loaded `module`; `more` is added to its environment."""

    def __init__(self, module: str, more: Mapping[str, str]) -> None:
        self._module, self._more = module, dict(more)
        self._lock = threading.Lock()
        self._asks: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Spawner] | None = None

    def prepare(self) -> None:
        """Start the spawner process, which loads the engine. Does not wait for it."""
        with self._lock:
            if self._asks is None:
                self._asks = self._started()

    @contextmanager
    def child(self, watch: Watch, listener: EngineListener) -> Iterator[Child]:
        """Start a process; it is ended when the block ends.

        Raises:
            ChildGone: no process can be started.
        """
        with ExitStack() as stack:
            try:
                child = stack.enter_context(self._begotten(watch, listener))
            except ChildGone:  # the spawner process may have been killed, also while it was asked
                self._give_up_ended()
                child = stack.enter_context(self._begotten(watch, listener))
            yield child

    @contextmanager
    def _begotten(self, watch: Watch, listener: EngineListener) -> Iterator[Child]:
        ours, theirs = socket.socketpair()
        told, tells = os.pipe()
        try:
            with theirs:
                try:
                    self._ask(theirs.fileno(), tells)
                finally:
                    os.close(tells)
            with Child(ours, told, watch, listener) as child:
                yield child
        finally:
            os.close(told)
            ours.close()

    def _ask(self, *handles: int) -> None:
        with self._lock:
            if self._asks is None:
                self._asks = self._started()
            try:
                socket.send_fds(self._asks, [b"1"], handles)
            except OSError:
                raise ChildGone(None) from None

    def _give_up_ended(self) -> None:
        """If the spawner process has ended, or ends now, have the next question start another.
        One that only failed to fork goes on: its processes answer other questions."""
        if (process := self._process) is None:
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)
            with self._lock:
                if process is self._process:
                    self.close()

    def _started(self) -> socket.socket:
        asks, asked = socket.socketpair()
        with asked:
            process = subprocess.Popen(
                program(f"{__package__}.spawner", self._module),
                stdin=asked.fileno(),
                stdout=subprocess.DEVNULL,
                env=environment(self._more),
                cwd="/",
                start_new_session=True,
            )
        self._process = process
        self._end = weakref.finalize(self, _end, process, asks)
        return asks

    def close(self) -> None:
        """End the spawner process, if it was started. The next query starts a new one."""
        self._asks = None
        if self._end is not None:
            self._end()


def _end(process: subprocess.Popen[bytes], asks: socket.socket) -> None:
    asks.close()
    process.kill()
    process.wait()


class Child:
    """One process. It may take `START_S` to start; then the limits of `watch` apply."""

    def __init__(
        self, connection: socket.socket, told: int, watch: Watch, listener: EngineListener
    ) -> None:
        self._connection, self._told = connection, told
        self._watch, self._listener = watch, listener
        self._stopped = threading.Event()
        self._handle = -1
        self._pid = 0
        self._deadline = time.monotonic() + START_S
        self._next_look = 0.0
        self._shared = 0

    def __enter__(self) -> Child:
        self._listener.stops(self._stopped.set)
        self._connection.setblocking(False)
        try:
            self._born()
        except BaseException:
            self.__exit__()
            raise
        self._deadline = time.monotonic() + self._watch.seconds
        self._shared = self._memory()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle >= 0:
            end_forked(self._handle, self._told)  # the caller removes its files afterwards
            self._handle = -1

    @property
    def pid(self) -> int:
        return self._pid

    def send(self, kind: bytes, content: bytes) -> None:
        """Send one frame. Raises the same errors as `frames`."""
        left = memoryview(FRAME.pack(kind, len(content)) + content)
        while left:
            try:
                left = left[self._connection.send(left) :]
            except BlockingIOError:
                self._look([], [self._connection])
            except OSError:
                raise ChildGone(ending_signal(self._told)) from None

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
                piece = self._connection.recv(min(length - len(content), _PIECE_BYTES))
            except BlockingIOError:
                self._look([self._connection], [])
                continue
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise ChildGone(ending_signal(self._told))
            content += piece
            self._judge()
        return memoryview(content)

    def _born(self) -> None:
        while True:
            try:
                word, handles, _, _ = socket.recv_fds(self._connection, PID.size, 1)
                break
            except BlockingIOError:
                self._look([self._connection], [])
        if not handles:
            raise ChildGone(None)
        self._handle, self._pid = handles[0], PID.unpack(word)[0]

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
            resident = Path(f"/proc/{self._pid}/statm").read_text().split()[1]
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
