"""The context of the current work: its trace, actor, dataset and job.

A request or a job sets the context when it starts; log lines and submitted jobs read it. The
trace is a W3C Trace Context: `00-<trace id>-<span id>-<flags>`, so that one request can be
followed through service, queue and worker, and on into other systems.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from contextvars import ContextVar

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
