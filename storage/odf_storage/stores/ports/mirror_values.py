"""A mirror, which is a dataset that follows one on another node, and its last result."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant


class MirrorState(StrEnum):
    """Result of the last attempt to pull."""

    NEW = "new"
    """Not pulled yet."""
    CURRENT = "current"
    """Equal to the remote dataset at `checked_at`."""
    DIVERGED = "diverged"
    """The chain of the remote has diverged or is shorter; only a forced pull continues."""
    FAILED = "failed"
    """The last attempt failed; the next one may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """Result of an attempt; `error` is the class name of a `NodeError`."""

    state: MirrorState = MirrorState.NEW
    checked_at: Instant | None = None
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The remote dataset that a local dataset follows."""

    dataset: DatasetId
    remote: str
    """URL of the remote dataset, as a user writes it."""
    sealed_token: bytes | None = field(default=None, repr=False)
    """Token for the remote, encrypted by the node."""
    status: MirrorStatus = MirrorStatus()
