"""Answers about texts of strangers that a parser computes which is not linear: in a reader process,
within seconds, and remembered by the hash of what was asked."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeVar

import msgspec
from anyio import from_thread

from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind

from ..limits.shares import Turns
from .pool import ReaderGone, Readers, ReadRefused, ReadTooSlow
from .tasks import ColumnsTask, MarkdownTask, NotThere

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
        raise NotThere(str(name), kind=kind.value)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /) -> None:
        raise NotThere(str(list(wanted)), kind=kind.value)

    def open_index(self, key: str, /) -> BinaryIO | None:
        raise NotThere(key)
