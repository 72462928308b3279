"""The service's end of readers: send a task, receive the bytes of its answer.

A request takes a turn (each caller has a limited share) and releases it with its answer. A reader
enforces its limits of memory and time itself. The service ends a reader by closing its socket.

Turn streams into open files whose descriptors can be passed to another process.

Answers about texts of strangers that a parser computes which is not linear: in a reader process,
within seconds, and remembered by the hash of what was asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import socket
import struct
import tempfile
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec
from anyio import CapacityLimiter, from_thread, to_thread

from odf_protocol.errors import BadInput, NodeError, NodeFault
from odf_protocol.multihash import Multihash
from odf_storage.datasets.pruning.learned import Learned
from odf_storage.runtime.children import Born, Nursery
from odf_storage.stores.ports.values import Failed, ObjectKind

from ..limits.shares import Turn, Turns
from ..settings import Settings
from .messages import (
    HEAD,
    INDEX_FILE,
    MAX_FILES,
    FrameKind,
    Need,
    OpenedSlices,
    frame,
    head_of,
    read_failed,
    read_learned,
    read_needs,
    read_slices,
)
from .tasks import (
    TEXT_S,
    ColumnsTask,
    LookTask,
    MarkdownTask,
    Order,
    ReaderLimits,
    Task,
    write_order,
)


def with_descriptor(stream: BinaryIO) -> BinaryIO:
    """Return the stream as a file that another process can read; copy it to one if necessary."""
    with suppress(OSError):
        stream.fileno()
        stream.seek(0)
        return stream
    with stream:
        copy = tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(stream, copy)
        copy.flush()
        return copy


READ_HELD_S = 2.0
"""Seconds that rows are held back at most: what a reader has by then is sent."""

READ_HELD_BYTES = 1 << 20
"""Bytes of rows held back until the answer's end is known: answers up to this have a
`Content-Length`, longer ones are sent as they come."""

PUBLISH_LOOK_S = 30.0
"""Seconds that a process may take to look at a file that is to be published; more: 503."""

TASKS = (
    "tail",
    "read",
    "changed",
    "lookup",
    "step",
    "standing",
    "profile",
    "columns",
    "markdown",
    "look",
)
TEXT_TASKS = (ColumnsTask, MarkdownTask)
SPARES = 2
"""Number of idle readers that wait for a task."""
RECEIVE_BYTES = 256 * 1024
OPENED_AT_ONCE = 4
"""Number of threads that open the files of one request of a reader."""
_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONUTF8": "1",
}
"""The whole environment of readers, apart from `PYTHONPATH`; they inherit nothing from the service.
Their memory is limited as address space, and memory pools would reserve that ahead."""


class ReadRefused(BadInput):
    """A reader refused its task; the service returns this error as the response."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, **failed.facts)
        self.failed = failed


class ReaderGone(NodeError):
    """A reader ended before its answer was complete."""


class ReadTooSlow(NodeError):
    """A reader sent nothing within the time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"reading these rows takes more than {seconds:g} seconds; ask for fewer",
            limit=seconds,
            setting="ODF_NODE_READER_SILENT_S",
        )


class ReaderObjects(Protocol):
    """Port that opens the objects of a dataset. The methods are called in threads."""

    def open_whole(self, kind: ObjectKind, name: Multihash, /) -> BinaryIO: ...
    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /) -> None: ...
    def open_index(self, key: str, /) -> BinaryIO | None: ...


Learn = Callable[[Iterable[Learned]], None]


def _forget(_: Iterable[Learned]) -> None:
    """Ignore bounds of slices."""


class Readers:
    """The readers of one service. Use it in the thread of the event loop only."""

    def __init__(self, settings: Settings) -> None:
        numbers = {
            "most": settings.readers,
            "each": settings.share_of(settings.readers),
            "setting": "ODF_NODE_READERS",
        }
        self._turns = {
            kind: Turns(f"{kind}s", **numbers)  # type: ignore[arg-type]
            for kind in TASKS
        }
        self._settings = settings
        memory_bytes, silent_s = settings.reader_memory_bytes, settings.reader_silent_s
        self._limits = ReaderLimits(memory_bytes=memory_bytes, silent_s=silent_s)
        self._of_texts = ReaderLimits(memory_bytes=memory_bytes, silent_s=min(silent_s, TEXT_S))
        self._of_looks = ReaderLimits(memory_bytes=memory_bytes, silent_s=PUBLISH_LOOK_S)
        self._threads = CapacityLimiter(2 * settings.readers)

    def _limits_of(self, task: Task) -> ReaderLimits:
        """Return the limits of a reader. Its time begins in it, when the nursery has started."""
        if isinstance(task, LookTask):
            return self._of_looks
        return self._of_texts if isinstance(task, TEXT_TASKS) else self._limits

    def start(self) -> None:
        """Start the nursery before the first request. Call from any thread."""
        NURSERY.start()

    async def answer(
        self, task: Task, objects: ReaderObjects, caller: str, learn: Learn = _forget
    ) -> ReaderAnswer:
        """Start a reader and return its answer after the first bytes, so that errors can still
        become a response. `learn` is called with bounds of slices that the reader finds.

        Raises:
            ShareTaken, AllTaken: no reader is free. ReadRefused: the reader refused the task.
            ReaderGone, ReadTooSlow. The errors of opening an object.
        """
        kind = task.__struct_config__.tag
        turn = await self._turns[str(kind)].take(caller, self._settings.turn_wait_s)
        born: Born | None = None
        try:
            born = await to_thread.run_sync(_reader, limiter=self._threads)
            limits = self._limits_of(task)
            answer = ReaderAnswer(born, objects, self._threads, self._settings, turn, learn)
            await answer.begin(Order(limits=limits, task=task))
        except BaseException:
            if born is not None:
                born.leave()
            turn.give_back()
            raise
        return answer


def _reader() -> Born:
    """Return a reader that waits for its task. Blocks until there is one. Raises `ReaderGone`."""
    try:
        return NURSERY.born()
    except ChildProcessError:
        raise ReaderGone("no process could be started that reads; try again") from None


class ReaderAnswer:
    """The bytes of one answer. Iterate it once to its end, or close it."""

    def __init__(
        self,
        born: Born,
        objects: ReaderObjects,
        threads: CapacityLimiter,
        settings: Settings,
        turn: Turn,
        learn: Learn,
    ) -> None:
        self.size: int | None = None
        """Size of the answer in bytes, if known."""
        self.opened: OpenedSlices | None = None
        """Numbers of opened and of all slices, if the reader reports them."""
        self._learn = learn
        self._born, self._link = born, born.link
        self._link.setblocking(False)
        self._objects, self._threads, self._turn = objects, threads, turn
        self._silent_s, self._idle_s = settings.reader_silent_s, settings.client_idle_s
        self._held_bytes, self._held_s = READ_HELD_BYTES, READ_HELD_S
        self._received = bytearray()
        self._held: deque[bytes] = deque()
        self._is_whole = False
        self._loop = asyncio.get_running_loop()

    async def begin(self, order: Order) -> None:
        """Send the order and read a short answer to its end, or the first pieces of a long one."""
        await self._loop.sock_sendall(self._link, frame(FrameKind.TASK, write_order(order)))
        length, since = 0, self._loop.time()
        while (piece := await self._piece()) is not None:
            self._held.append(piece)
            length += len(piece)
            is_late = self._loop.time() - since > self._held_s
            if self.size is not None or length > self._held_bytes or is_late:
                return
        self.size, self._is_whole = length, True

    def close(self) -> None:
        """End the reader and release the turn."""
        self._born.leave()
        self._turn.give_back()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (piece := await self._next()) is not None:
                # A client that stops reading must not block a reader.
                leaving = self._loop.call_later(self._idle_s, self.close)
                try:
                    yield piece
                finally:
                    leaving.cancel()
        finally:
            self.close()

    async def _next(self) -> bytes | None:
        if self._held:
            return self._held.popleft()
        return None if self._is_whole else await self._piece()

    async def _piece(self) -> bytes | None:
        """Return the next bytes of the answer; None at its end."""
        while True:
            kind, content = await self._frame()
            match kind:
                case FrameKind.PIECE:
                    return content
                case FrameKind.END:
                    return None
                case FrameKind.SIZE:
                    (self.size,) = struct.unpack("!Q", content)
                case FrameKind.SLICES:
                    self.opened = read_slices(content)
                case FrameKind.LEARNED:
                    self._learn(read_learned(content))
                case FrameKind.FAILED:
                    raise ReadRefused(read_failed(content))
                case FrameKind.NEED:
                    await self._hand_over(content)
                case FrameKind.REQUIRE:
                    await self._require(content)
                case _:
                    raise NodeError("ReaderBrokeProtocol", f"a reader says {kind.name}")

    async def _hand_over(self, content: bytes) -> None:
        """Send the files that the reader requests. Threads open them, since each may be far away.

        Raises:
            ReaderBrokeProtocol, ReaderGone, and the errors of opening an object.
        """
        wanted = read_needs(content)
        if len(wanted) > MAX_FILES:
            raise NodeError("ReaderBrokeProtocol", f"a reader asks for {len(wanted)} files at once")
        with ExitStack() as opened:
            files = await self._opened(wanted, opened)
            if not files:
                await self._loop.sock_sendall(self._link, frame(FrameKind.ABSENT))
                return
            try:
                numbers = [each.fileno() for each in files]
                socket.send_fds(self._link, [frame(FrameKind.FILE)], numbers)
            except OSError:
                raise ReaderGone("a reader ended while it was given a file") from None

    async def _opened(self, wanted: list[Need], opened: ExitStack) -> list[BinaryIO]:
        """Return the files in their order, without a file of an index that does not exist."""

        def open_some(needs: list[Need]) -> list[BinaryIO]:
            found = []
            for need in needs:
                stream = self._open(need)
                if stream is not None:
                    found.append(opened.enter_context(with_descriptor(stream)))
            return found

        some = -(-len(wanted) // OPENED_AT_ONCE) or 1
        parts = [wanted[at : at + some] for at in range(0, len(wanted), some)]
        running = [to_thread.run_sync(open_some, part, limiter=self._threads) for part in parts]
        found: list[BinaryIO] = []
        for part in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(part, BaseException):
                raise part
            found += part
        return found

    def _open(self, need: Need) -> BinaryIO | None:
        if need.kind == INDEX_FILE:
            return self._objects.open_index(need.hash)
        return self._objects.open_whole(*need.place)

    async def _require(self, content: bytes) -> None:
        wanted = read_needs(content)
        for kind in {need.place[0] for need in wanted}:
            those = [(need.place[1], need.size) for need in wanted if need.place[0] is kind]
            await to_thread.run_sync(self._objects.require, kind, those, limiter=self._threads)
        await self._loop.sock_sendall(self._link, frame(FrameKind.FILE))

    async def _frame(self) -> tuple[FrameKind, bytes]:
        kind, length = head_of(await self._exactly(HEAD.size))
        return kind, await self._exactly(length)

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            self._received += await self._more(max(RECEIVE_BYTES, size - len(self._received)))
        found = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return found

    async def _more(self, size: int) -> bytes:
        if self._link.fileno() < 0:
            raise ReaderGone("the client took nothing for too long")
        try:
            async with asyncio.timeout(self._silent_s):
                piece = await self._loop.sock_recv(self._link, size)
        except TimeoutError:
            raise ReadTooSlow(self._silent_s) from None
        except OSError:
            piece = b""
        if not piece:
            raise ReaderGone("a reader ended before its answer did")
        return piece


NURSERY = Nursery(
    "odf_node.service.reader_process.child",
    _ENVIRONMENT,
    spares=SPARES,
)
"""All nodes of this process share it, because the limits of a reader are part of its order."""


T = TypeVar("T")
WAITING, WAITING_EACH = 8, 2
"""Threads for work that asks for many answers: in sum, and of one caller."""
KEPT = 1_000
"""Number of answers that are remembered; none is longer than `tasks.MAX_TEXT_BYTES`."""
KEPT_BYTES = 64 << 20


class TextAnswers:
    """The answers of one service. The methods are called in threads of requests."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._turns = Turns("requests about texts", most=WAITING, each=WAITING_EACH)
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    async def run(self, caller: str, work: Callable[[], T]) -> T:
        """Run work that asks for answers in a thread that only such work uses, in a turn of the
        caller."""
        return await self._turns.run(caller, work)

    def answer(self, task: ColumnsTask | MarkdownTask, caller: str) -> Any:
        """Return the answer. None if there is none, also if it took too much time or memory; that
        is remembered, too. Raises `ShareTaken`, `AllTaken`."""
        key = hashlib.sha256(msgspec.json.encode(task)).digest()
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
        if known is None:
            try:
                known = from_thread.run(self._computed, task, caller)
            except (ReaderGone, ReadRefused, ReadTooSlow):
                known = b"null"
            self._keep(key, known)
        return msgspec.json.decode(known)

    async def _computed(self, task: ColumnsTask | MarkdownTask, caller: str) -> bytes:
        answer = await self._readers.answer(task, _Nothing(), caller)
        return b"".join([piece async for piece in answer])

    def _keep(self, key: bytes, answer: bytes) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = answer
            self._bytes += len(answer)
            while len(self._kept) > KEPT or self._bytes > KEPT_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])


class _Nothing:
    """The objects of a task that needs none."""

    def open_whole(self, kind: ObjectKind, name: Multihash, /) -> BinaryIO:
        raise NodeFault("NotThere", str(name), kind=kind.value)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /) -> None:
        raise NodeFault("NotThere", str(list(wanted)), kind=kind.value)

    def open_index(self, key: str, /) -> BinaryIO | None:
        raise NodeFault("NotThere", key)
