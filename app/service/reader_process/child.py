"""One reader: takes a task, answers it, ends. Its limits are the system's, so they hold in C too.

Whatever it allocates beyond its memory fails; a timer ends it when it says nothing for too long
(stopped while it waits for the service, that is for the client); and it ends as soon as nobody
is at the other end of its socket.
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from odf_node.protocol.errors import LimitExceeded, NodeError
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.ports.values import Failed, ObjectKind

from ..readers.messages import (
    HEAD,
    INDEX_FILE,
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
)
from ..readers.tasks import Limits, Order, read_order
from .work import run

PAGE_BYTES = resource.getpagesize()
GRACE_S = 5.0
"""The service says that it was too slow; this is for when the service does not."""
_log = logging.getLogger("odf.reader")


class ReaderMemoryFull(LimitExceeded):
    """The rows do not fit what a reader may take."""

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
        """The first thing that is said; the limits in it hold from here on."""
        kind, length = head_of(self._exactly(HEAD.size))
        assert kind is Kind.TASK  # noqa: S101 - the service is not input
        order = read_order(self._exactly(length))
        self._limits = order.limits
        _limit_memory(order.limits.memory_bytes)
        self._work_on()
        return order

    def say(self, raw: bytes) -> None:
        """However long it takes until somebody reads it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._link.sendall(raw)
        self._work_on()

    def open_whole(self, kind: ObjectKind, name: Multihash) -> BinaryIO:
        """An object, opened and hashed by the service; which ends us if it cannot."""
        self.say(frame(Kind.NEED, needs([Need(kind.value, str(name))])))
        signal.setitimer(signal.ITIMER_REAL, 0)
        raw, files, *_ = socket.recv_fds(self._link, 1, 1)
        if not raw or not files:
            os._exit(1)
        self._exactly(HEAD.size - 1)
        self._work_on()
        return os.fdopen(files[0], "rb")

    def open_index(self, key: str) -> BinaryIO | None:
        """A file of the node's own index of the dataset; None if there is none."""
        self.say(frame(Kind.NEED, needs([Need(INDEX_FILE, key)])))
        signal.setitimer(signal.ITIMER_REAL, 0)
        raw, files, *_ = socket.recv_fds(self._link, 1, 1)
        if not raw:
            os._exit(1)
        self._exactly(HEAD.size - 1)
        self._work_on()
        return os.fdopen(files[0], "rb") if files else None

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """The service knows that these are here; it ends us if they are not."""
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
    """Answer the one task that comes."""
    _end_with(link)
    wire = Wire(link)
    try:
        order = wire.order()
        for raw in _answer(order, wire):
            wire.say(raw)
    except (BrokenPipeError, ConnectionResetError):
        return  # nobody waits any more


def _answer(order: Order, wire: Wire) -> Iterator[bytes]:
    """The frames of an answer, of which the last says how it ended."""
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
"""What is said about an answer, by its type; all else is bytes of it."""


def _limit_memory(more: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _end_with(link: socket.socket) -> None:
    """End as soon as the other side has gone, whatever is being computed."""
    watched = select.poll()
    watched.register(link, select.POLLRDHUP)

    def wait() -> None:
        watched.poll()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
