"""What this piece of work is part of: the trace, who asked for it, which dataset and job.

Set at the doors (a request, a job), read when a log line is written or a job submitted. The
trace is a W3C Trace Context: `00-<trace id>-<span id>-<flags>`, so that one request can be
followed through service, queue and worker, and on into other systems.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_trace: ContextVar[str | None] = ContextVar("trace", default=None)
_facts: ContextVar[dict[str, str] | None] = ContextVar("facts", default=None)
"""One dictionary for a piece of work, shared with the threads that help with it."""


def new_trace(given: str | None = None) -> str:
    """A step of the trace of a `traceparent` header, or of a new one if that is unusable."""
    found = _TRACEPARENT.fullmatch(given) if given else None
    known = found is not None and set(found[1]) != {"0"} and set(found[2]) != {"0"}
    trace_id = found[1] if found is not None and known else secrets.token_hex(16)
    return f"00-{trace_id}-{secrets.token_hex(8)}-01"


def trace_id(trace: str | None) -> str | None:
    """The part of a trace that all its steps share."""
    return trace.split("-")[1] if trace else None


def current_trace() -> str | None:
    return _trace.get()


def current_facts() -> Mapping[str, str]:
    """Everything known of the work at hand: `trace`, `actor`, `dataset`, `job`, …"""
    known = _facts.get() or {}
    trace = trace_id(_trace.get())
    return {"trace": trace, **known} if trace else known


@contextmanager
def part_of(trace: str | None, **facts: str | None) -> Iterator[None]:
    """Until the block ends, the work belongs to this trace, and these facts hold."""
    before, before_facts = _trace.set(trace), _facts.set(dict(_facts.get() or {}))
    try:
        add_facts(**facts)
        yield
    finally:
        _facts.reset(before_facts)
        _trace.reset(before)


def add_facts(**facts: str | None) -> None:
    """More is known by now, for all who work on this; outside of any work nothing happens."""
    known = _facts.get()
    if known is not None:
        known.update({key: value for key, value in facts.items() if value is not None})
