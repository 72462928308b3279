"""A mirror: a dataset that follows one on another node, and how that went last."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant


class MirrorState(StrEnum):
    """What the last attempt came to."""

    NEW = "new"
    """Not pulled yet."""
    CURRENT = "current"
    """As the remote was at `checked_at`."""
    DIVERGED = "diverged"
    """The remote went another way, or back: only force goes on."""
    FAILED = "failed"
    """The last attempt did not come through; the next one may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """Outcome of an attempt; `error` is the class name of a `NodeError`."""

    state: MirrorState = MirrorState.NEW
    checked_at: Instant | None = None
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """What a dataset of ours follows."""

    dataset: DatasetId
    remote: str
    """URL of the dataset, as a client writes it."""
    sealed_token: bytes | None = field(default=None, repr=False)
    """Token for the remote, encrypted by the node."""
    status: MirrorStatus = MirrorStatus()
