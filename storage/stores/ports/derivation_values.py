"""A derivative that follows its inputs: when it is due, who is at it, what keeps it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant

from .values import JobId


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the last attempt failed. `error` is the class name of a `NodeError`, or `Internal`."""

    error: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """How one derivative stands."""

    dataset: DatasetId
    wanted: bool | None = None
    """Whether it is to follow its inputs by itself; None before that was decided."""
    due_at: Instant | None = None
    """When its next job is to be submitted; None when nothing new is known."""
    version: int = 0
    """Counts what made it due, so that nothing of that is lost."""
    job: JobId | None = None
    """The job whose end is waited for."""
    attempts: int = 0
    """Failed ones in a row."""
    problem: Problem | None = None
    paused: bool = False
    """The problem does not go away by trying again."""
