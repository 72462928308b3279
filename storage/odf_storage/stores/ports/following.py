"""Ports for datasets that follow other datasets, on this node or elsewhere.

A mirror, which is a dataset that follows one on another node, and its last result.

State of a derivative that follows its inputs: when it is due, its job, its last problem.

The author of a dataset's definition, whose access rights apply when the definition runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from odf_protocol.codec.blocks import encode_block
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import MetadataBlock, SetPollingSource, SetTransform
from odf_protocol.multihash import Multihash

from .values import AccountId, JobId, Reach


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


class MirrorReads(Protocol):
    """Reads which datasets follow a dataset on another node."""

    def find(self, dataset: DatasetId) -> Mirror | None: ...
    def among(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        """Return those of the given datasets that are mirrors."""


class MirrorChanges(Protocol):
    """Adds and removes mirrors. Forgetting a dataset removes its mirror.

    `put` adds or replaces; it raises `DatasetNotFound`. `note` and `remove` change nothing for a
    dataset that is not a mirror.
    """

    def put(self, mirror: Mirror) -> None: ...
    def note(self, dataset: DatasetId, status: MirrorStatus) -> None: ...
    def remove(self, dataset: DatasetId) -> None:
        """Make the dataset an ordinary dataset again."""


class MirrorStore(MirrorReads, MirrorChanges, Protocol):
    """Both mirror ports in one; code that uses the store names the part that it needs."""


class DefinitionAuthors(Protocol):
    """Authors of the transforms and sources of datasets. Forgetting a dataset removes them.

    `put` adds or replaces; it raises `DatasetNotFound`.
    """

    def put(self, dataset: DatasetId, definition: Multihash, author: Author) -> None: ...
    def of_dataset(self, dataset: DatasetId) -> Mapping[Multihash, Author]:
        """Return authors by the hash of the definition (`definition_hash`); empty if none."""


class DerivationCursor(Protocol):
    """The position in the log of head moves up to which due derivatives were recorded."""

    def cursor(self) -> int:
        """Return the number of the last move that was processed."""

    def found_moves(
        self,
        *,
        expected: int,
        cursor: int,
        due: Mapping[DatasetId, Instant],
        resumed: Collection[DatasetId] = (),
    ) -> bool:
        """Advance the cursor from `expected` to `cursor` and record the due times, atomically.

        A derivative that is already due keeps its earlier time. `resumed` ones are not paused
        any more. Return False, with no change, if the cursor is not at `expected`.
        """


class Derivations(Protocol):
    """State of derivatives. Forgetting a dataset removes its row.

    The first record about a dataset creates its row; records about unknown datasets are ignored.
    """

    def find(self, dataset: DatasetId) -> Derivation | None: ...
    def due(self, *, now: Instant, limit: int = 100) -> Sequence[Derivation]:
        """Return derivatives that are due, longest waiting first; none paused or with a job."""

    def at_work(self) -> Sequence[Derivation]: ...
    def submitted(self, dataset: DatasetId, *, version: int, job: JobId | None) -> None:
        """Record the job, or that none is needed (None). Clear the due time if `version` is still
        current."""

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId | None,
        problem: Problem | None = None,
        paused: bool = False,
        retry_at: Instant | None = None,
    ) -> None:
        """Record the outcome of that job, or why there was none. Ignored if it has another job."""

    def decide(self, dataset: DatasetId, *, wanted: bool) -> None:
        """Set whether the dataset should follow its inputs automatically."""

    def resume(self, dataset: DatasetId, *, job: JobId) -> None:
        """Record a job that a user submitted; the dataset follows its inputs again."""


class DerivationStore(DerivationCursor, Derivations, Protocol):
    """Both ports in one: a single transaction records due derivatives and the cursor."""
