"""Datasets that keep up with others, of this node or elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .definition_values import Author
from .derivation_values import Derivation, Problem
from .mirror_values import Mirror, MirrorStatus
from .values import JobId


class MirrorReads(Protocol):
    """Which datasets follow one on another node."""

    def find(self, dataset: DatasetId) -> Mirror | None: ...
    def among(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        """Those of the datasets that are mirrors."""


class MirrorChanges(Protocol):
    """Datasets begin and cease to follow. A mirror goes with its dataset.

    `put` adds or replaces; unknown → `DatasetNotFound`. `note` of what is no mirror, and
    `remove` of it, change nothing.
    """

    def put(self, mirror: Mirror) -> None: ...
    def note(self, dataset: DatasetId, status: MirrorStatus) -> None: ...
    def remove(self, dataset: DatasetId) -> None:
        """From now on the dataset is one like others."""


class MirrorStore(MirrorReads, MirrorChanges, Protocol):
    """Both; those who use one name the part that they need."""


class DefinitionAuthors(Protocol):
    """Who defined the transforms and sources of datasets. They go with their dataset.

    `put` adds or replaces; unknown → `DatasetNotFound`.
    """

    def put(self, dataset: DatasetId, definition: Multihash, author: Author) -> None: ...
    def of_dataset(self, dataset: DatasetId) -> Mapping[Multihash, Author]:
        """By the hash of the definition (`definition_hash`); empty where none was ever noted."""


class DerivationCursor(Protocol):
    """The position in the log of head moves up to which derivatives were noted as due."""

    def cursor(self) -> int:
        """The number of the last move that was gone through."""

    def found_moves(
        self,
        *,
        expected: int,
        cursor: int,
        due: Mapping[DatasetId, Instant],
        resumed: Collection[DatasetId] = (),
    ) -> bool:
        """Go on from `expected` to `cursor`, and note what is due by then: both, or nothing.

        What is due already stays so, and does not come later. False: the cursor is elsewhere.
        """


class Derivations(Protocol):
    """How derivatives keep up with their inputs. A row goes with its dataset.

    Rows come into being by what is noted of a dataset; of unknown ones nothing is.
    """

    def find(self, dataset: DatasetId) -> Derivation | None: ...
    def due(self, *, now: Instant, limit: int = 100) -> Sequence[Derivation]:
        """Those that are due, the longest waiting first; not those paused or at work."""

    def at_work(self) -> Sequence[Derivation]: ...
    def submitted(self, dataset: DatasetId, *, version: int, job: JobId | None) -> None:
        """A job is at it, or none is needed; due no more, unless something came since."""

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId | None,
        problem: Problem | None = None,
        paused: bool = False,
        retry_at: Instant | None = None,
    ) -> None:
        """What became of that job, or why there was none; nothing if another one is at it."""

    def decide(self, dataset: DatasetId, *, wanted: bool) -> None:
        """Whether it is to follow its inputs by itself."""

    def resume(self, dataset: DatasetId, *, job: JobId) -> None:
        """Somebody submitted a job by hand: it follows its inputs again."""


class DerivationStore(DerivationCursor, Derivations, Protocol):
    """Both: what a move makes due is noted together with the cursor."""
