"""The service's end of a query process: sends the question, receives the bytes of the answer.

The caller of `Process` limits how many processes run. The service kills a process, without a
request to stop, when its time is over, when its answer is closed, and when the service ends.

The names of datasets that a query may have meant by a table that there is not.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import BinaryIO

from anyio import CapacityLimiter, to_thread

from odf_protocol.errors import BadInput, LimitExceeded, NodeFault, Unavailable
from odf_protocol.typed import decode_json
from odf_storage.datasets.query.messages import (
    END,
    FRAME,
    INDEX,
    LINKED,
    MAX_PLANNED_BYTES,
    PIECE,
    PLANNED,
    QUESTION,
    Planned,
    QueryEnd,
    Question,
    WantedIndex,
    Why,
    encoded,
    frame,
)
from odf_storage.runtime.children import Born, Nursery

_ENVIRONMENT = {
    # The memory limit of a process also counts memory that an allocator only reserves.
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # Threads do not survive a fork.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONUTF8": "1",
}
"""The whole environment of the processes; nothing is inherited."""


def is_installed() -> bool:
    """Return whether this installation has the query engine."""
    return find_spec("datafusion") is not None


def nursery() -> Nursery:
    """Return a nursery of processes for queries. Only its name is known here, as the service is a
    stranger to workers."""
    return Nursery("odf_workers.query.process", _ENVIRONMENT)


RECEIVE_BYTES = 256 * 1024
_AT_LIMIT = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL)
"""Signals that end a process after a failed allocation, depending on the allocator, or with which
the system ends a process when the machine is out of memory."""


MAX_INDEX_FILES = 10_000
"""Limit of index files that a process may request."""
OpenIndex = Callable[[WantedIndex], BinaryIO | None]


class InvalidQuery(BadInput):
    """The engine cannot run the query; its message says why."""


def query_takes_too_much_memory(limit: int) -> LimitExceeded:
    """The query needs more memory than its process may have."""
    return LimitExceeded(
        "QueryTakesTooMuchMemory",
        f"the query needs more than {limit} bytes of memory; ask for less at a time",
        limit=limit,
        setting="ODF_NODE_QUERY_PROCESS_BYTES",
    )


class QueryTakesTooLong(LimitExceeded):
    """The query did not finish within its time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the query takes more than {seconds:g} seconds; ask for less at a time",
            limit=seconds,
            setting="ODF_NODE_QUERY_TIME_S",
        )


def no_process() -> Unavailable:
    """No process was born for a query."""
    return Unavailable("QueryProcessGone", "no process could be started for the query; try again")


class Process:
    """One process and its question. The caller must close it, which ends the process."""

    def __init__(
        self,
        born: Born,
        question: Question,
        seconds: float,
        threads: CapacityLimiter,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._born, self._link, self._question = born, born.link, question
        self._link.setblocking(False)
        self._seconds = self._left_s = seconds
        self._threads = threads
        self._received = bytearray()
        self._loop = loop

    async def plan(self, open_index: OpenIndex) -> Planned:
        """Send the question and return the plan of the query. Raises the same errors as `pieces`.

        The method calls `open_index` in a thread.
        """
        await self._say(frame(QUESTION, encoded(self._question)))
        kind, content = await self._frame()
        for _ in range(MAX_INDEX_FILES):
            if kind != INDEX:
                break
            await self._hand_over(decode_json(content, WantedIndex), open_index)
            kind, content = await self._frame()
        if kind != PLANNED:
            self._raise(kind, content)
            raise NodeFault("QueryEngineBroken", "the process of a query planned nothing")
        return decode_json(content, Planned)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the encoded rows. Call this when the links to the files of all tables exist.

        Raises:
            InvalidQuery, QueryAnswerTooLong, QueryTakesTooMuchMemory, QueryTakesTooLong.
            QueryProcessGone, QueryEngineBroken.
        """
        await self._say(frame(LINKED))
        while True:
            kind, content = await self._frame()
            if kind != PIECE:
                self._raise(kind, content)
                return
            yield content

    def close(self) -> None:
        """Kill the process. May block for a moment, while the kernel ends it."""
        self._born.kill()  # afterwards its files can be removed

    async def _hand_over(self, wanted: WantedIndex, open_index: OpenIndex) -> None:
        file = await to_thread.run_sync(open_index, wanted, limiter=self._threads)
        if file is None:
            await self._say(frame(INDEX))
            return
        with file:
            try:
                socket.send_fds(self._link, [frame(INDEX)], [file.fileno()])
            except OSError:
                await self._died()

    def _raise(self, kind: bytes, content: bytes) -> None:
        """Raise the error in the last frame, unless it says that all rows were sent."""
        if kind != END:
            raise NodeFault(
                "QueryEngineBroken", "the process of a query says what is not its turn to say"
            )
        end, limits = decode_json(content, QueryEnd), self._question.limits
        match end.why:
            case None:
                return
            case Why.QUERY:
                raise InvalidQuery(end.message, line=end.line, column=end.column)
            case Why.LENGTH:
                raise LimitExceeded(
                    "QueryAnswerTooLong",
                    f"the rows take more than the {limits.max_bytes} bytes of an answer; ask for "
                    "fewer, or for fewer columns",
                    limit=limits.max_bytes,
                    setting="ODF_NODE_QUERY_MAX_BYTES",
                )
            case Why.MEMORY:
                raise query_takes_too_much_memory(limits.process_bytes)
            case Why.ENGINE:
                raise NodeFault("QueryEngineBroken", f"the engine of queries failed: {end.message}")

    async def _frame(self) -> tuple[bytes, bytes]:
        kind, length = FRAME.unpack(await self._exactly(FRAME.size))
        if kind not in (INDEX, PLANNED, PIECE, END) or length > MAX_PLANNED_BYTES:
            raise NodeFault("QueryEngineBroken", "the process of a query says what none says")
        return kind, await self._exactly(length)

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            piece = await self._timed(
                self._loop.sock_recv(self._link, max(RECEIVE_BYTES, size - len(self._received)))
            )
            if not piece:
                await self._died()
            self._received += piece
        found = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return found

    async def _say(self, raw: bytes) -> None:
        await self._timed(self._loop.sock_sendall(self._link, raw))

    async def _timed(self, work: Awaitable[bytes | None]) -> bytes:
        """Subtract the time of the work from the time left; waiting for the client is free."""
        began = self._loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                return await work or b""
        except TimeoutError:
            raise QueryTakesTooLong(self._seconds) from None
        except OSError:
            return b""
        finally:
            self._left_s = max(0.0, self._left_s - (self._loop.time() - began))

    async def _died(self) -> None:
        """Raise the error that the exit signal of the process means."""
        number = await to_thread.run_sync(self._born.ending_signal, limiter=self._threads)
        if number == signal.SIGXCPU:
            raise QueryTakesTooLong(self._seconds)
        if number in _AT_LIMIT:
            raise query_takes_too_much_memory(self._question.limits.process_bytes)
        raise Unavailable(
            "QueryProcessGone", "the process of the query ended before it had answered; try again"
        )


MOST_NAMES = 1_000
"""Limit of names that are compared, as a suggestion is not worth more."""
SHOWN = 3
_UNKNOWN = re.compile(r"table '(?:kamu\.kamu\.)?(?P<name>[^']{1,200})' not found")


def with_near_names(
    bad: InvalidQuery,
    names: Callable[[], Sequence[str]],
    renamed: Callable[[str], str | None],
) -> InvalidQuery:
    """Return the error with the name of today of a table that is not found, as `renamed` says it,
    or those of the names that are nearest to it."""
    unknown = _UNKNOWN.match(bad.message)
    if unknown is None:
        return bad
    if now := renamed(unknown["name"]):
        return InvalidQuery(f'{bad.message}; it was renamed to "{now}"', **bad.facts, nearest=[now])
    near = get_close_matches(unknown["name"], names(), n=SHOWN)
    if not near:
        return bad
    meant = " or ".join(f'"{name}"' for name in near)
    return InvalidQuery(f"{bad.message}; did you mean {meant}?", **bad.facts, nearest=near)
