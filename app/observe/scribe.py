"""Writes deeds into the audit log, several at a time, without keeping requests waiting.

A deed is written within a fraction of a second. What cannot be written, because the database
is away for long, goes to the log of the process instead: nothing is lost silently.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, Full, Queue

from storage.audit.values import Deed
from storage.logs import line
from storage.ports import AuditLog

from .tally import Tally

WAITING = 10_000
"""Deeds that may wait to be written."""
TOGETHER = 200
PAUSE_S = 0.1
"""So long deeds are collected."""
ATTEMPTS = 5

_log = logging.getLogger("odf.audit")


class Scribe:
    """One thread that writes. `close` writes what is left."""

    def __init__(self, audit: AuditLog, tally: Tally) -> None:
        self._audit, self._tally = audit, tally
        self._queue: Queue[Deed] = Queue(WAITING)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, deed: Deed) -> None:
        """For the thread of the event loop only; waits for nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="scribe", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(deed)
        except Full:
            self._lose([deed])

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _work(self) -> None:
        while not self._closing.wait(PAUSE_S):
            self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        while deeds := self._take():
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._audit.record(deeds)
                    break
                except Exception:
                    if attempt == ATTEMPTS:
                        _log.exception("deeds could not be recorded")
                        self._lose(deeds)
                    elif not self._closing.is_set():
                        self._closing.wait(PAUSE_S * 2**attempt)

    def _take(self) -> list[Deed]:
        deeds: list[Deed] = []
        try:
            while len(deeds) < TOGETHER:
                deeds.append(self._queue.get_nowait())
        except Empty:
            pass
        return deeds

    def _lose(self, deeds: list[Deed]) -> None:
        self._tally.deeds_lost += len(deeds)
        for deed in deeds:
            told = {name: str(getattr(deed, name)) for name in ("at", "actor", "action", "outcome")}
            _log.error(line("deed not recorded", subject=deed.subject, **told))
