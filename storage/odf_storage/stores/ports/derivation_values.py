"""State of a derivative that follows its inputs: when it is due, its job, its last problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from .values import JobId


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the last attempt failed. `error` is the class name of a `NodeError`, or `Internal`."""

    error: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """State of one derivative."""

    dataset: DatasetId
    wanted: bool | None = None
    """Whether it should follow its inputs automatically; None until that is decided."""
    due_at: Instant | None = None
    """When its next job is to be submitted; None if no new input is known."""
    version: int = 0
    """Counts the events that made it due, so that none is lost while a job is submitted."""
    job: JobId | None = None
    """The running job whose end is still to be recorded."""
    attempts: int = 0
    """Number of consecutive failed attempts."""
    problem: Problem | None = None
    paused: bool = False
    """Whether the problem is one that a retry does not solve."""
