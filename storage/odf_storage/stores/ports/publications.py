"""Ports for datasets that are published for other programs; each has at most one publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .derivation_values import Problem
from .publication_values import PublishedDataset
from .values import JobId


class PublicationReads(Protocol):
    """Reads which datasets are published, and how."""

    def find(self, dataset: DatasetId) -> PublishedDataset | None: ...
    def served_as(self, uuid: str) -> PublishedDataset | None:
        """Return the publication that the node itself serves under this name."""


class PublicationChanges(Protocol):
    """Adds and removes publications. Forgetting a dataset removes its publication."""

    def put(self, publication: PublishedDataset) -> None:
        """Add or replace a definition, as the next version, for which there is no attempt yet.

        Raises:
            DatasetNotFound.
            PublicationNameTaken: in the same store another dataset has this name, or one of the
                two names begins with the other.
        """

    def remove(self, dataset: DatasetId) -> None:
        """Remove the publication, if there is one."""


class PublicationWork(Protocol):
    """Finds publications that lag behind their datasets, and tracks their jobs."""

    def due(
        self, *, now: Instant, limit: int = 100
    ) -> Sequence[tuple[PublishedDataset, Multihash]]:
        """Return publications without a job whose head had no attempt yet, with that head."""

    def at_work(self) -> Sequence[PublishedDataset]: ...
    def submitted(
        self,
        dataset: DatasetId,
        *,
        version: int,
        job: JobId,
        head: Multihash | None,
        not_before: Instant | None = None,
        if_due: bool = False,
    ) -> None:
        """Record the job for this version and head; None: the job publishes the current head. With
        `if_due` nothing is recorded if another job was recorded for the head meanwhile."""

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
        """Record the outcome of that job; ignored if another job is recorded. `head` is the
        published head. With `retry_at` the same head is due again at that time."""


class PublicationStore(PublicationReads, PublicationChanges, PublicationWork, Protocol):
    """All publication ports in one; code that uses the store names the part that it needs."""
