"""Versions of a dataset: number n is made by the block with data number n, counted from 0.

The files of a version are slices. Blocks without data make no version; a new schema belongs to the
next version with data. Pure; without Arrow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.data import DataSlice
from odf_protocol.multihash import Multihash

from ..read.view import Outline


class NoSuchVersion(BadInput):
    """The dataset has no version with that number or at that time."""


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
        return interval.end - interval.start + 1


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
            raise NoSuchVersion(
                f"there is no version {number}; the newest one is {self.last}",
                version=number,
                newest=self.last,
            )
        return number

    def at(self, time: Instant) -> int:
        """Return the newest version that existed at a time. Raise `NoSuchVersion`."""
        number = bisect_right(self._times, time.ns) - 1
        if number < 0:
            raise NoSuchVersion(f"there was no version yet at {time}", time=str(time))
        return number

    def since(self, time: Instant) -> int:
        """Return the oldest version that was made at a time or later. Raise `NoSuchVersion`."""
        number = bisect_left(self._times, time.ns)
        if number == len(self):
            raise NoSuchVersion(f"there is no version since {time}", time=str(time))
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
