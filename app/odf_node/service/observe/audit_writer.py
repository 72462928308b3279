"""Write entries into the audit log in batches, without making requests wait.

An entry is written within a fraction of a second. If the database is unavailable for long, the
entry is written to the log of the process instead, so that none is lost silently.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, Full, Queue

from odf_storage.runtime.logs import line
from odf_storage.stores.ports.accounts import AuditEntry
from odf_storage.stores.registers.accounts.audit import AuditLog

from .metrics import Counters

WAITING = 10_000
"""Limit of queued entries."""
TOGETHER = 200
PAUSE_S = 0.1
"""Seconds for which entries are collected into a batch."""
ATTEMPTS = 5

_log = logging.getLogger("odf.audit")


class AuditWriter:
    """Writes entries in one thread. `close` writes the remaining ones."""

    def __init__(self, audit: AuditLog, counters: Counters) -> None:
        self._audit, self._tally = audit, counters
        self._queue: Queue[AuditEntry] = Queue(WAITING)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, audit_entry: AuditEntry) -> None:
        """Queue an entry without waiting. Call this in the thread of the event loop only."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="audit-writer", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(audit_entry)
        except Full:
            self._lose([audit_entry])

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _work(self) -> None:
        while not self._closing.wait(PAUSE_S):
            self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        while audit_entries := self._take():
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._audit.record(audit_entries)
                    break
                except Exception:
                    if attempt == ATTEMPTS:
                        _log.exception("audit entries could not be recorded")
                        self._lose(audit_entries)
                    elif not self._closing.is_set():
                        self._closing.wait(PAUSE_S * 2**attempt)

    def _take(self) -> list[AuditEntry]:
        audit_entries: list[AuditEntry] = []
        try:
            while len(audit_entries) < TOGETHER:
                audit_entries.append(self._queue.get_nowait())
        except Empty:
            pass
        return audit_entries

    def _lose(self, audit_entries: list[AuditEntry]) -> None:
        self._tally.deeds_lost += len(audit_entries)
        for audit_entry in audit_entries:
            told = {
                name: str(getattr(audit_entry, name))
                for name in ("at", "actor", "action", "outcome")
            }
            _log.error(line("audit entry not recorded", subject=audit_entry.subject, **told))
