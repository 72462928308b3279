"""Wake-ups between all processes on one PostgreSQL, by `NOTIFY` and `LISTEN`."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import sqlalchemy as sa

from odf_protocol.errors import Unavailable

from .port import Closing, Listener, Topic

CHANNEL = "odf_node_"


class PostgresWakeUp:
    """`WakeUp` by LISTEN and NOTIFY."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def announce(self, db: sa.Connection, topic: Topic) -> None:
        db.execute(sa.select(sa.func.pg_notify(CHANNEL + topic, "")))

    def send(self, topic: Topic) -> None:
        """Do nothing, because the commit has sent the notification."""

    def listen(self, topic: Topic) -> Listener:
        return _PostgresListener(self._engine, CHANNEL + topic)


class _PostgresListener(Closing):
    """A private connection, opened again when it breaks."""

    def __init__(self, engine: sa.Engine, channel: str) -> None:
        self._engine, self._channel = engine, channel
        self._connection: Any = None
        with contextlib.suppress(sa.exc.DBAPIError, Unavailable):
            self._open()

    def wait(self, seconds: float) -> bool:
        began = time.monotonic()
        try:
            for _ in self._open().notifies(timeout=seconds, stop_after=1):
                return True
        except Exception:  # the server restarts: wait for the time, as if there was no wake-up
            self.close()
            time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        return False

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None

    def _open(self) -> Any:
        if self._connection is None:
            fairy = self._engine.raw_connection()
            connection: Any = fairy.driver_connection
            fairy.detach()
            connection.autocommit = True
            connection.execute(f"LISTEN {self._channel}")
            self._connection = connection
        return self._connection
