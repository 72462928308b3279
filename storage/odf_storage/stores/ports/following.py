"""Values of datasets that follow other datasets, on this node or elsewhere.

A mirror, which is a dataset that follows one on another node, and its last result.

State of a derivative that follows its inputs: when it is due, its job, its last problem.

The author of a dataset's definition, whose access rights apply when the definition runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from odf_protocol.codec.blocks import encode_block
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import MetadataBlock, SetPollingSource, SetTransform
from odf_protocol.multihash import Multihash

from .values import AccountId, JobId, Reach

MIRROR_TOKEN = "token"  # noqa: S105 - the name of a secret, not one


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

    @property
    def token_owner(self) -> str:
        """Return for whom the token is sealed: this dataset and this remote only."""
        return f"mirror:{self.dataset}:{self.remote}"


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


Definition = SetTransform | SetPollingSource
"""An event that lets a dataset read other datasets, or external addresses with secrets."""
_EPOCH = Instant(0)


@dataclass(frozen=True, slots=True)
class Author:
    """An account, limited to the reach of its token. No account: an author on another node."""

    account: AccountId | None
    reach: Reach = Reach.NODE


NOBODY = Author(None)
"""The author of definitions that a mirror pulled, and of those without a known author."""


def definition_hash(definition: Definition) -> Multihash:
    """Return a hash that depends on the definition alone, not on the block that contains it."""
    block = MetadataBlock(
        system_time=_EPOCH, prev_block_hash=None, sequence_number=0, event=definition
    )
    return encode_block(block).hash
