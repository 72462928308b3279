"""Ports for datasets that follow other datasets, on this node or elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .definition_values import Author
from .derivation_values import Derivation, Problem
from .mirror_values import Mirror, MirrorStatus
from .values import JobId


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
