"""Log lines of service and worker: one event per line, as text or as JSON.

A line keeps its fields, whichever way it is written. The trace, actor, dataset and job of the
current work are added to every line.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from odf_protocol.errors import Unavailable

from .context import current_facts

TEXT, JSON = "text", "json"
OUTAGE_S = 60.0
"""Seconds for which an outage that was logged is not logged again."""
CAUSES = 20
"""Limit of the causes of an error that are looked at."""


class Line(str):
    """The text of a log line, with the event and fields from which it was built."""

    __slots__ = ("event", "fields")
    event: str
    fields: dict[str, Any]


def line(event: str, **fields: Any) -> Line:
    """Build `event key=value …`; values with blanks or quotes are quoted, None is left out."""
    kept = {key: value for key, value in fields.items() if value is not None}
    built = Line(" ".join([event, *(f"{key}={_text(value)}" for key, value in kept.items())]))
    built.event, built.fields = event, kept
    return built


def set_up(level: str, form: str = TEXT) -> None:
    """Write log lines to stderr: the node's from `level` on, those of libraries from warning on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == JSON else TextLines())
    handler.addFilter(Outages())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("odf").setLevel(level.upper())


class Outages(logging.Filter):
    """Logs one line when the database or the store is away, and one when it has been away for a
    while longer, instead of a traceback for each attempt of each thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now, self._lock = now, threading.Lock()
        self._told: dict[str, float] = {}
        """When each kind of outage was logged last."""
        self._untold: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        error = _outage_of(record.exc_info[1] if record.exc_info else None)
        if error is None:
            return True
        kind, now = type(error).__name__, self._now()
        with self._lock:
            if now - self._told.get(kind, -OUTAGE_S) < OUTAGE_S:
                self._untold[kind] += 1
                return False
            self._told[kind], more = now, self._untold.pop(kind, 0)
        first = str(error).partition("\n")[0][:300]
        told = record.getMessage()
        record.msg = line(told, outage=kind, reason=first, unlogged=more or None)
        record.args = record.exc_info = record.exc_text = None
        return True


def _outage_of(error: BaseException | None) -> BaseException | None:
    """Return the error of a database or store that is away, if it is among the causes."""
    for _ in range(CAUSES):
        if error is None:
            return None
        is_of_driver = type(error).__module__.startswith("sqlalchemy.")
        if isinstance(error, Unavailable) or (is_of_driver and type(error).__name__ in _AWAY):
            return error
        error = error.__cause__ or error.__context__
    return None


_AWAY = frozenset(("OperationalError", "InterfaceError", "DisconnectionError", "TimeoutError"))


class TextLines(logging.Formatter):
    """Formats time, level, logger, the line, and facts of the context that the line lacks."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging has it
        said = _fields(record)
        origin = {key: value for key, value in current_facts().items() if key not in said}
        more = "".join(f" {key}={_text(value)}" for key, value in origin.items())
        return super().formatMessage(record) + more


class JsonLines(logging.Formatter):
    """Formats one JSON object per line; the field `exception` contains an exception."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {**current_facts(), **_fields(record)}
        message = record.msg.event if isinstance(record.msg, Line) else record.getMessage()
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **{key: value for key, value in fields.items() if key not in _RESERVED},
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


_RESERVED = frozenset(("time", "level", "logger", "message", "exception"))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return record.msg.fields if isinstance(record.msg, Line) else {}


def _text(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    plain = text and text.isprintable() and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)
