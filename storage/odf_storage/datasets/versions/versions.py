"""Versions of a dataset: number n is made by the block with data number n, counted from 0.

The files of a version are slices. Blocks without data make no version; a new schema belongs to the
next version with data. Pure; without Arrow.

A record of the history that readers of versions have seen, to notice when it is replaced.

A dataset whose history is rewritten gets another epoch, and so its tables get another identity:
clients that remember versions never mix two histories.
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json

from ...stores.keyed.folder import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedStore
from ..read.view import Outline


@dataclass(frozen=True, slots=True)
class Version:
    """The version that a block with data adds."""

    number: int
    block: Multihash
    recorded: Instant
    """System time of the block."""
    data: DataSlice

    @property
    def rows(self) -> int:
        interval = self.data.offset_interval
        return interval.count


class Versions(Sequence[Version]):
    """All versions of one history, oldest first."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline

    def __len__(self) -> int:
        return len(self._outline.slices)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        data, recorded = self._outline.slices[number]
        return Version(number, self._outline.blocks[number], recorded, data)

    @property
    def last(self) -> int:
        """Number of the newest version; 0 also if there is no data."""
        return max(len(self) - 1, 0)

    def check(self, number: int) -> int:
        """Return the number if it may be requested. Raise `NoSuchVersion`."""
        if not 0 <= number <= self.last:
            raise BadInput(
                "NoSuchVersion",
                f"there is no version {number}; the newest one is {self.last}",
                version=number,
                newest=self.last,
            )
        return number

    def at(self, time: Instant) -> int:
        """Return the newest version that existed at a time. Raise `NoSuchVersion`."""
        number = bisect_right(self._times, time.ns) - 1
        if number < 0:
            raise BadInput("NoSuchVersion", f"there was no version yet at {time}", time=str(time))
        return number

    def since(self, time: Instant) -> int:
        """Return the oldest version that was made at a time or later. Raise `NoSuchVersion`."""
        number = bisect_left(self._times, time.ns)
        if number == len(self):
            raise BadInput("NoSuchVersion", f"there is no version since {time}", time=str(time))
        return number

    @property
    def _times(self) -> list[int]:
        return [recorded.ns for _, recorded in self._outline.slices]

    def of_offsets(self, offsets: Sequence[int]) -> list[int]:
        """Return the versions that added the rows with these offsets, which are ascending."""
        starts = [data.offset_interval.start for data, _ in self._outline.slices]
        found: list[int] = []
        for offset in offsets:
            number = bisect_right(starts, offset) - 1
            if number >= 0 and found[-1:] != [number]:
                found.append(number)
        return found


_FOLDER = "versions"
_KEY = "history.json"
MAX_BYTES = 64 << 20
"""Limit of the bytes of a record: some eight bytes for each version with retractions."""
_NAMESPACE = uuid.UUID("4b1a2f38-3a8c-5f0e-9d53-0df0de17a5e0")


class History(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A history when it was last read. An empty `block` means a dataset without data."""

    epoch: str = ""
    version: int = -1
    """Number of the newest version; -1 if there is none."""
    block: str = ""
    """Hash of the block of the newest version."""
    replaced: int = 0
    """Number of times that the history of the dataset was replaced."""
    changed: tuple[int, ...] = ()
    """Versions with retractions."""

    def identity(self, dataset: DatasetId, view: str) -> str:
        """Return an identity that differs for each table and for each history of it."""
        return str(uuid.uuid5(_NAMESPACE, f"{dataset} {self.epoch} {view}"))

    def is_of(self, versions: Versions) -> bool:
        """Return whether these versions continue the history."""
        if self.version < 0:
            return True
        is_there = self.version < len(versions)
        return is_there and str(versions[self.version].block) == self.block

    def continued(self, versions: Versions, changed: tuple[int, ...]) -> History:
        """Return the history up to the newest of the versions; `changed` are the new versions with
        retractions."""
        kept = self if self.is_of(versions) else self._replaced(versions)
        newest = len(versions) - 1
        return msgspec.structs.replace(
            kept,
            version=newest,
            block=str(versions[newest].block) if newest >= 0 else "",
            changed=(*kept.changed, *changed),
        )

    def _replaced(self, versions: Versions) -> History:
        said = f"{self.epoch} {self.block} {len(versions)}"
        epoch = hashlib.sha3_256(said.encode()).hexdigest()[:16]
        return History(epoch=epoch, replaced=self.replaced + 1)


def version_files(projections: KeyedStore, dataset: DatasetId) -> Below:
    """Return the store of the files for versions of a dataset, among its projections."""
    return Below(projections, f"{dataset_folder(dataset)}/{_FOLDER}")


class Histories:
    """The record of the history of one dataset, among its projections."""

    def __init__(self, projections: KeyedStore, dataset: DatasetId) -> None:
        self._store = version_files(projections, dataset)

    def read(self) -> tuple[History, str | None]:
        """Return the record and the tag of its file; the tag is None if there is no file."""
        content = self._store.read(_KEY, most=MAX_BYTES)
        if content is None:
            return History(), None
        return decode_json(content.raw, History), content.tag

    def write(self, history: History, *, instead_of: str | None) -> None:
        """Write the record. Raise `SwapLost` if another writer wrote it meanwhile."""
        self._store.swap(_KEY, msgspec.json.encode(history), expected=instead_of)
