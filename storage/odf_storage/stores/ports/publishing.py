"""Ports for uploaded files, schedules and variables, which publishers add to their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .values import AccountId, JobId, JobSpec, Schedule, UploadedFile, Variable


class UploadedFiles(Protocol):
    """Files that accounts upload before ingesting them; their bytes are `upload` objects.

    `put` raises `AccountNotFound`.
    """

    def put(self, file: UploadedFile) -> None: ...
    def find(self, upload: str) -> UploadedFile | None: ...
    def arrived(self, upload: str, content: Multihash, size: int) -> UploadedFile | None:
        """Record the content unless one is known already. Return the file; None if absent."""

    def count(self, account: AccountId) -> int: ...
    def oldest(self, *, before: Instant, limit: int = 100) -> Sequence[UploadedFile]:
        """Return files that were announced before that time, oldest first."""

    def has_content(self, account: AccountId, content: Multihash) -> bool:
        """Return whether a file of the account has this content."""

    def remove(self, upload: str) -> None: ...


class Schedules(Protocol):
    """Jobs that start at set times. Forgetting a dataset removes its schedules.

    `put` adds or replaces; it raises `DatasetNotFound`.
    """

    def put(self, schedule: Schedule) -> None: ...
    def find(self, schedule: str) -> Schedule | None: ...
    def of_dataset(self, dataset: DatasetId) -> Sequence[Schedule]:
        """Return schedules in the order of their creation."""

    def remove(self, schedule: str) -> bool: ...
    def due(self, now: Instant, *, limit: int = 100) -> Sequence[Schedule]:
        """Return the schedules that are due, longest overdue first."""

    def next_due(self) -> Instant | None: ...
    def start(
        self, schedule: Schedule, spec: JobSpec, *, now: Instant, next_at: Instant | None
    ) -> JobId | None:
        """Queue the job and set the next time, atomically.

        None if another process did so first, or if the schedule has changed since it was read.
        """


class Variables(Protocol):
    """Variables and encrypted secrets of datasets and accounts, by the id of their owner.

    Forgetting a dataset removes its variables.
    """

    def put(self, owner: str, variable: Variable) -> None: ...
    def of_owner(self, owner: str) -> Mapping[str, Variable]:
        """Return the variables by name, ordered by name."""

    def remove(self, owner: str, name: str) -> bool: ...
    def owners(self) -> Sequence[str]: ...
