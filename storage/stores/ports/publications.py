"""Datasets that are published for other programs, each as one publication at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .derivation_values import Problem
from .publication_values import PublishedDataset
from .values import JobId


class PublicationReads(Protocol):
    """Which datasets are published, and how."""

    def find(self, dataset: DatasetId) -> PublishedDataset | None: ...
    def served_as(self, uuid: str) -> PublishedDataset | None:
        """The one that the node itself serves by this name."""


class PublicationChanges(Protocol):
    """Datasets begin and cease to be published. A publication goes with its dataset."""

    def put(self, publication: PublishedDataset) -> None:
        """Add or replace a definition, as the next version: nothing of it was tried yet.

        Raises:
            DatasetNotFound.
            PublicationNameTaken: in the same store another dataset has this name, or one that
                this one begins with, or that begins with this one.
        """

    def remove(self, dataset: DatasetId) -> None:
        """Nothing there: nothing happens."""


class PublicationWork(Protocol):
    """Which publications are behind their datasets, and which are worked on."""

    def due(
        self, *, now: Instant, limit: int = 100
    ) -> Sequence[tuple[PublishedDataset, Multihash]]:
        """Those whose dataset has a head that was not tried, with the head; none at work."""

    def at_work(self) -> Sequence[PublishedDataset]: ...
    def submitted(
        self,
        dataset: DatasetId,
        *,
        version: int,
        job: JobId,
        head: Multihash | None,
        not_before: Instant | None = None,
    ) -> None:
        """A job is at it, for this head of this version; None: for whatever is the head."""

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId,
        shown: Mapping[str, Any] | None = None,
        head: Multihash | None = None,
        problem: Problem | None = None,
        retry_at: Instant | None = None,
    ) -> None:
        """What became of that job; nothing if another one is at it. `head` is what it published.
        With `retry_at` the same head is tried again then."""


class PublicationStore(PublicationReads, PublicationChanges, PublicationWork, Protocol):
    """All of it; those who use one name the part that they need."""
