"""Log lines of service and worker: one event per line, as text or as JSON.

A line keeps its fields, whichever way it is written. The trace, actor, dataset and job of the
current work are added to every line.

The context of the current work: its trace, actor, dataset and job.

A request or a job sets the context when it starts; log lines and submitted jobs read it. The
trace is a W3C Trace Context: `00-<trace id>-<span id>-<flags>`, so that one request can be
followed through service, queue and worker, and on into other systems.

OpenTelemetry traces, if the environment enables them by the standard variables (`OTEL_…`).

Spans are sent to the OTLP/HTTP endpoint of `OTEL_EXPORTER_OTLP_ENDPOINT` (or `…_TRACES_ENDPOINT`).
Without an endpoint there are no spans, and the packages need not be installed.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from odf_protocol.errors import BadInput, Unavailable, code_of

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_bits = random.getrandbits
"""Ids must be unique, not secret, so the slower random source of the kernel is not needed."""
_trace: ContextVar[str | None] = ContextVar("trace", default=None)
_facts: ContextVar[dict[str, str] | None] = ContextVar("facts", default=None)
"""One dictionary per piece of work, shared with the threads that work on it."""


def new_trace(given: str | None = None) -> str:
    """Return a new step of the trace in a `traceparent` header, or of a new trace if invalid."""
    found = _TRACEPARENT.fullmatch(given) if given else None
    known = found is not None and set(found[1]) != {"0"} and set(found[2]) != {"0"}
    trace_id = found[1] if found is not None and known else f"{_bits(128):032x}"
    return f"00-{trace_id}-{_bits(64):016x}-01"


def trace_id(trace: str | None) -> str | None:
    """Return the part of a trace that all its steps share."""
    return trace.split("-")[1] if trace else None


def current_trace() -> str | None:
    return _trace.get()


def current_facts() -> Mapping[str, str]:
    """Return all known facts about the current work: `trace`, `actor`, `dataset`, `job`, …"""
    known = _facts.get() or {}
    trace = trace_id(_trace.get())
    return {"trace": trace, **known} if trace else known


class part_of:  # noqa: N801 - reads as the function that it is for its callers
    """Set the trace and add facts of the current work, until the block ends."""

    __slots__ = ("_before", "_before_facts", "_facts", "_trace")

    def __init__(self, trace: str | None, **facts: str | None) -> None:
        self._trace, self._facts = trace, facts

    def __enter__(self) -> None:
        self._before = _trace.set(self._trace)
        self._before_facts = _facts.set(dict(_facts.get() or ()))
        if self._facts:
            add_facts(**self._facts)

    def __exit__(self, *_: object) -> None:
        _facts.reset(self._before_facts)
        _trace.reset(self._before)


def add_facts(**facts: str | None) -> None:
    """Add facts to the current work, for all its threads; outside of any work do nothing."""
    known = _facts.get()
    if known is not None:
        known.update({key: value for key, value in facts.items() if value is not None})


TEXT, JSON = "text", "json"
OUTAGE_S = 60.0
"""Seconds for which an outage that was logged is not logged again."""
CAUSES = 20
"""Limit of the causes of an error that are looked at."""


class LogLine(str):
    """The text of a log line, with the event and fields from which it was built."""

    __slots__ = ("event", "fields")
    event: str
    fields: dict[str, Any]


def line(event: str, **fields: Any) -> LogLine:
    """Build `event key=value …`; values with blanks or quotes are quoted, None is left out."""
    kept = {key: value for key, value in fields.items() if value is not None}
    built = LogLine(" ".join([event, *(f"{key}={_text(value)}" for key, value in kept.items())]))
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
        kind, now = code_of(error), self._now()
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
        message = record.msg.event if isinstance(record.msg, LogLine) else record.getMessage()
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
    return record.msg.fields if isinstance(record.msg, LogLine) else {}


def _text(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    plain = text and text.isprintable() and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OFF = "OTEL_SDK_DISABLED"
Kind = Literal["server", "consumer"]
_NO_SPAN = nullcontext()
_provider: Any = None
"""The provider of the process; None until tracing has started."""


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    off = environ.get(OFF, "").lower() == "true"
    none = environ.get("OTEL_TRACES_EXPORTER", "otlp").lower() == "none"
    return not off and not none and any(environ.get(name) for name in ENDPOINTS)


def start_tracing(service: str, version: str) -> None:
    """Start to send spans, if the environment enables them. Raises `TelemetryNotInstalled`."""
    global _provider
    if _provider is not None or not is_wanted():
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as missing:
        raise BadInput(
            "TelemetryNotInstalled",
            f"traces need the package {missing.name}: install odf-node[telemetry], or unset "
            + " and ".join(ENDPOINTS),
            package=missing.name,
        ) from None
    named = {"service.name": service, "service.version": version}
    if "OTEL_SERVICE_NAME" in os.environ:
        del named["service.name"]
    _provider = TracerProvider(resource=Resource.create(named))
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))


def stop_tracing() -> None:
    """Send the remaining spans and stop tracing."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


def is_tracing() -> bool:
    """Return whether spans are sent."""
    return _provider is not None


def span(name: str, kind: Kind, parent: str | None) -> AbstractContextManager[str | None]:
    """Open a span around the block, a child of `parent`; yield its `traceparent`, or None if off.

    An exception that leaves the block is recorded.
    """
    return _NO_SPAN if _provider is None else _span(name, kind, parent)


@contextmanager
def _span(name: str, kind: Kind, parent: str | None) -> Iterator[str | None]:
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": parent or ""})
    kinds = {"server": SpanKind.SERVER, "consumer": SpanKind.CONSUMER}
    tracer = _provider.get_tracer("odf-node")
    with tracer.start_as_current_span(name, context=context, kind=kinds[kind]):
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        yield carrier.get("traceparent")


def describe_span(name: str | None = None, **attributes: Any) -> None:
    """Set name and attributes of the current span; without a span do nothing."""
    if _provider is None:
        return
    from opentelemetry.trace import get_current_span

    current = get_current_span()
    if name is not None:
        current.update_name(name)
    current.set_attributes({key: value for key, value in attributes.items() if value is not None})
