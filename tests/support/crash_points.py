"""Ends a process at a chosen step with SIGKILL: no clean-up, no last words.

A step is every call that leaves a trace outside of the process: a file made, written to,
renamed, renewed or removed; a statement or a commit sent to the database; a request to the
object store. Product code knows nothing of it: steps are seen where Python, SQLAlchemy,
botocore and obstore let everybody look. Install in a process that is to die, never in pytest's own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

FILE_EVENTS = {
    "os.rename": "rename",
    "os.remove": "remove",
    "os.link": "link",
    "os.mkdir": "mkdir",
    "os.rmdir": "rmdir",
    "os.utime": "renew",
    "os.truncate": "truncate",
}
READS = ("SELECT", "PRAGMA", "BEGIN", "WITH")
"""Statements that leave no trace: to die before one is to die before the next step."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_lock = threading.Lock()


class CrashPoints:
    """Counts steps, tells each by name, and dies before step number `at` (from 1)."""

    def __init__(self, at: int | None, tell: Callable[[str], None]) -> None:
        self._at, self._tell = at, tell
        self._count = 0
        self._armed = False

    def arm(self) -> None:
        """Count from here on."""
        self._armed = True

    def disarm(self) -> None:
        self._armed = False

    def step(self, name: str) -> None:
        if not self._armed:
            return
        with _lock:
            self._count += 1
            self._tell(name)
            if self._count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()

    def install(self) -> None:
        """See all steps of this process from now on; it cannot be undone."""
        sys.addaudithook(self._audit)
        sa.event.listen(sa.Engine, "before_cursor_execute", self._statement)
        sa.event.listen(sa.Engine, "commit", lambda _connection: self.step("sql COMMIT"))
        if "botocore" in sys.modules:
            self._watch_requests()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        if event == "open":
            path, _mode, flags = arguments
            if isinstance(path, str) and flags & WRITES and not path.startswith("/dev/"):
                self.step("file open to write")
        elif event in FILE_EVENTS:
            self.step("file " + FILE_EVENTS[event])

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        words = statement.split()[:3]
        if words[0].upper() not in READS:
            self.step("sql " + " ".join(words))

    def _watch_requests(self) -> None:
        from botocore.httpsession import URLLib3Session
        from obstore.store import S3Store

        send = URLLib3Session.send

        def watched(session: Any, request: Any) -> Any:
            if request.method not in ("GET", "HEAD"):
                self.step(f"s3 {request.method}")
            return send(session, request)

        put = S3Store.put

        def watched_put(*arguments: Any, **options: Any) -> Any:
            self.step("s3 PUT")
            return put(*arguments, **options)

        URLLib3Session.send = watched  # type: ignore[method-assign]
        S3Store.put = watched_put  # type: ignore[method-assign]
