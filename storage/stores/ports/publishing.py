"""What publishers leave with a node beside their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .values import AccountId, JobId, JobSpec, Schedule, UploadedFile, Variable


class UploadedFiles(Protocol):
    """Files accounts uploaded before ingesting them; the bytes are `upload` objects.

    `put` of an unknown account → `AccountNotFound`.
    """

    def put(self, file: UploadedFile) -> None: ...
    def find(self, upload: str) -> UploadedFile | None: ...
    def arrived(self, upload: str, content: Multihash, size: int) -> UploadedFile | None:
        """The file with its content as it is now: the first that arrived stays. None: absent."""

    def count(self, account: AccountId) -> int: ...
    def oldest(self, *, before: Instant, limit: int = 100) -> Sequence[UploadedFile]:
        """Files announced before then, oldest first."""

    def has_content(self, account: AccountId, content: Multihash) -> bool:
        """Whether a file of the account has this content."""

    def remove(self, upload: str) -> None: ...


class Schedules(Protocol):
    """Work that begins by itself. Those of a dataset go with it.

    `put` adds or replaces; unknown dataset → `DatasetNotFound`.
    """

    def put(self, schedule: Schedule) -> None: ...
    def find(self, schedule: str) -> Schedule | None: ...
    def of_dataset(self, dataset: DatasetId) -> Sequence[Schedule]:
        """In the order they were made."""

    def remove(self, schedule: str) -> bool: ...
    def due(self, now: Instant, *, limit: int = 100) -> Sequence[Schedule]:
        """Those whose time has come, longest overdue first."""

    def next_due(self) -> Instant | None: ...
    def start(
        self, schedule: Schedule, spec: JobSpec, *, now: Instant, next_at: Instant | None
    ) -> JobId | None:
        """Queue the job and move on to the next time, both or neither.

        None: another process did, or the schedule was changed since.
        """


class Variables(Protocol):
    """Variables and sealed secrets of datasets and accounts, by the id of their owner."""

    def put(self, owner: str, variable: Variable) -> None: ...
    def of_owner(self, owner: str) -> Mapping[str, Variable]:
        """By name, in the order of names."""

    def remove(self, owner: str, name: str) -> bool: ...
    def owners(self) -> Sequence[str]: ...
