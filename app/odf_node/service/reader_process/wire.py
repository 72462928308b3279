"""The reader's end of its socket: it receives the order, sends the answer, and asks for files.

An allocation beyond the memory limit of the order fails. A timer ends the reader if it sends
nothing for too long; the timer stops while it waits for the service, and so for the client.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind

from ..readers.messages import (
    HEAD,
    INDEX_FILE,
    MAX_FILES,
    FrameKind,
    Need,
    frame,
    head_of,
    needs,
    windows,
)
from ..readers.tasks import Order, ReaderLimits, read_order

PAGE_BYTES = resource.getpagesize()
GRACE_S = 5.0
"""Seconds beyond the service's time limit; normally the service ends a slow reader first."""


class _Coming:
    """A request for files, and the files once they have arrived."""

    def __init__(self) -> None:
        self.files: Sequence[BinaryIO] = ()


class Wire:
    """The reader's end of its socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._limits: ReaderLimits | None = None
        self._coming: deque[_Coming] = deque()
        """Requests for files that the service has not answered yet, in their order."""

    def order(self) -> Order:
        """Receive the order, and apply its limits."""
        kind, length = head_of(self._exactly(HEAD.size))
        assert kind is FrameKind.TASK  # noqa: S101 - the service is not input
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
        coming = self._ask(asked[0])
        for these, following in pairwise(asked):
            files = self._files(coming)
            if len(files) != len(these):
                os._exit(1)
            coming = self._ask(following)
            yield from files

    def open_index(self, key: str) -> BinaryIO | None:
        """Request a file of the node's index of the dataset; None if it does not exist."""
        return next(iter(self._files(self._ask([Need(INDEX_FILE, key)]))), None)

    def _ask(self, wanted: list[Need]) -> _Coming:
        coming = _Coming()
        if wanted:
            self.say(frame(FrameKind.NEED, needs(wanted)))
            self._coming.append(coming)
        return coming

    def _files(self, coming: _Coming) -> Sequence[BinaryIO]:
        """Return the files of a request; none if the service has none. What was asked for before
        them arrives before them, whether or not somebody still wants it."""
        while coming in self._coming:
            self._coming.popleft().files = self._received()
        return coming.files

    def _received(self) -> Sequence[BinaryIO]:
        """Receive the files that were asked for first."""
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
        while self._coming:
            self._coming.popleft().files = self._received()
        self.say(frame(FrameKind.REQUIRE, needs(asked)))
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


def _limit_memory(more: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
