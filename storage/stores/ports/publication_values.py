"""A dataset that is published for other programs: how, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .derivation_values import Problem
from .values import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDataset:
    """How one dataset is published, and how that stands."""

    dataset: DatasetId
    uuid: str
    store: str | None
    """URL of the store; None: the node serves it itself."""
    definition: dict[str, Any]
    """As it was asked for."""
    version: int = 0
    """Counts definitions, so that a job for an older one settles nothing of a newer one."""
    tried_head: Multihash | None = None
    """The head that was last published, or tried; None: nothing since the definition."""
    not_before: Instant | None = None
    """No job is submitted before."""
    job: JobId | None = None
    """The job whose end is waited for."""
    attempts: int = 0
    """Failed ones in a row."""
    problem: Problem | None = None
    """Why the last attempt failed; None once one succeeded."""
    shown: dict[str, Any] | None = None
    """What the last job that succeeded published."""
