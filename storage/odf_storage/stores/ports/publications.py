"""A dataset that is published for other programs: its definition and its last result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .following import Problem
from .values import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDataset:
    """How one dataset is published, and the state of its publication."""

    dataset: DatasetId
    uuid: str
    store: str | None
    """URL of the store; None if the node itself serves the publication."""
    definition: dict[str, Any]
    """The definition, as the client requested it."""
    version: int = 0
    """Incremented by each new definition, so that a job for an older one cannot complete it."""
    tried_head: Multihash | None = None
    """The head of the last attempt to publish; None if there was none since the definition."""
    not_before: Instant | None = None
    """No job is submitted before this time."""
    job: JobId | None = None
    """The running job whose end is still to be recorded."""
    attempts: int = 0
    """Number of consecutive failed attempts."""
    problem: Problem | None = None
    """Why the last attempt failed; None after a success."""
    shown: dict[str, Any] | None = None
    """What the last successful job published."""
