"""One reader: receives a task, answers it and ends. The system enforces its limits, also on C code.

An allocation beyond its memory limit fails. A timer ends it if it sends nothing for too long; the
timer stops while it waits for the service, and so for the client. It also ends as soon as the
service closes the other end of its socket.
"""

from __future__ import annotations

import logging
import os
import resource
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from odf_protocol.errors import LimitExceeded, NodeError
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import Failed, ObjectKind

from ..readers.messages import (
    HEAD,
    INDEX_FILE,
    MAX_FILES,
    PIECE_BYTES,
    Kind,
    Need,
    Opened,
    failed_frame,
    frame,
    head_of,
    learned_frame,
    needs,
    slices_frame,
    windows,
)
from ..readers.tasks import Limits, Order, read_order
from .work import run

PAGE_BYTES = resource.getpagesize()
GRACE_S = 5.0
"""Seconds beyond the service's time limit; normally the service ends a slow reader first."""
_log = logging.getLogger("odf.reader")


class ReaderMemoryFull(LimitExceeded):
    """The rows need more memory than a reader may use."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"reading these rows takes more than {limit} bytes of memory; ask for fewer, or for "
            "fewer columns",
            limit=limit,
            setting="ODF_NODE_READER_MEMORY_BYTES",
        )


class Wire:
    """The reader's end of its socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._limits: Limits | None = None

    def order(self) -> Order:
        """Receive the order, and apply its limits."""
        kind, length = head_of(self._exactly(HEAD.size))
        assert kind is Kind.TASK  # noqa: S101 - the service is not input
        order = read_order(self._exactly(length))
        self._limits = order.limits
        _limit_memory(order.limits.memory_bytes)
        self._work_on()
        return order

    def say(self, raw: bytes) -> None:
        """Send a frame; wait without a time limit until the service reads it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._link.sendall(raw)
        self._work_on()

    def open_whole(self, kind: ObjectKind, name: Multihash) -> BinaryIO:
        """Request an object, which the service opens and hashes; if it cannot, it ends us."""
        [stream] = self.open_each(kind, [(name, 0)])
        return stream

    def open_each(
        self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]
    ) -> Iterator[BinaryIO]:
        """Request objects of these sizes, and yield them in their order, as `open_whole` opens
        them. While some are read, the service opens the next ones."""
        asked = [*windows(Need(kind.value, str(name), size) for name, size in wanted), []]
        self._ask(asked[0])
        for these, following in pairwise(asked):
            files = self._files()
            if len(files) != len(these):
                os._exit(1)
            self._ask(following)
            yield from files

    def open_index(self, key: str) -> BinaryIO | None:
        """Request a file of the node's index of the dataset; None if it does not exist."""
        self._ask([Need(INDEX_FILE, key)])
        return next(iter(self._files()), None)

    def _ask(self, wanted: list[Need]) -> None:
        if wanted:
            self.say(frame(Kind.NEED, needs(wanted)))

    def _files(self) -> Sequence[BinaryIO]:
        """Receive the files that were asked for first; none if the service has none."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        raw, files, *_ = socket.recv_fds(self._link, 1, MAX_FILES)
        if not raw:
            os._exit(1)
        self._exactly(HEAD.size - 1)
        self._work_on()
        return [os.fdopen(each, "rb") for each in files]

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """Have the service check that the objects exist; it ends this process if not."""
        asked = [Need(kind.value, str(name), size) for name, size in wanted]
        self.say(frame(Kind.REQUIRE, needs(asked)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._exactly(HEAD.size)
        self._work_on()

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._link.recv(size - len(received))
            if not piece:
                os._exit(0)
            received += piece
        return bytes(received)

    def _work_on(self) -> None:
        if self._limits is not None:
            signal.setitimer(signal.ITIMER_REAL, self._limits.silent_s + GRACE_S)


def serve(link: socket.socket) -> None:
    """Receive one task and answer it."""
    _end_with(link)
    wire = Wire(link)
    try:
        order = wire.order()
        for raw in _answer(order, wire):
            wire.say(raw)
    except (BrokenPipeError, ConnectionResetError):
        return  # the service has closed the socket


def _answer(order: Order, wire: Wire) -> Iterator[bytes]:
    """Yield the frames of an answer; the last one says how it ended."""
    try:
        for piece in run(order.task, wire):
            if not isinstance(piece, bytes):
                yield _TOLD[type(piece)](piece)
                continue
            view = memoryview(piece)
            for at in range(0, len(view), PIECE_BYTES):
                yield frame(Kind.PIECE, view[at : at + PIECE_BYTES])
    except MemoryError:  # Arrow's as well
        yield failed_frame(Failed.of(ReaderMemoryFull(order.limits.memory_bytes)))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except NodeError as error:
        yield failed_frame(Failed.of(error))
    except Exception:
        _log.exception("a reader crashed")
        yield failed_frame(Failed("Internal", ""))
    else:
        yield frame(Kind.END)


_TOLD: dict[type[Any], Callable[[Any], bytes]] = {
    int: lambda size: frame(Kind.SIZE, struct.pack("!Q", size)),
    Opened: slices_frame,
    list: learned_frame,
}
"""Makers of frames about an answer, by type of the value; other values are bytes of the answer."""


def _limit_memory(more: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _end_with(link: socket.socket) -> None:
    """End this process as soon as the service closes its end, even during a computation."""
    watched = select.poll()
    watched.register(link, select.POLLRDHUP)

    def wait() -> None:
        watched.poll()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
