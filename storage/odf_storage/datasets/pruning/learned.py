"""A cache of bounds of columns in slices: reads of a service learn them, later reads use them.

It needs no Arrow. A slice never changes, so entries never become stale; the cache is bounded and
drops the least recently used column first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec

REMEMBERED_BOUNDS = 200_000
"""Least and greatest values of columns in slices that the service remembers, some 300 bytes each,
so that filters open fewer slices; 0: none."""

Learned = tuple[str, str, "Bounds"]
"""Hash of a slice, column, bounds."""


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    """Bounds of a column in a slice. Both None: all its values are null."""

    type: str
    """Arrow type of the column when its values were read."""
    least: int | float | str | bool | None
    greatest: int | float | str | bool | None


class LearnedBounds:
    """A cache of one process; safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """`most` is the limit of bounds in the cache, some 300 bytes each; 0: no cache."""
        self._most, self._count = most, 0
        self._known: dict[tuple[str, str], dict[str, Bounds]] = {}
        """Bounds by slice, by dataset and column; the most recently used are at the end."""
        self._lock = threading.Lock()

    def of(
        self, dataset: str, columns: Iterable[str], slices: Sequence[str]
    ) -> dict[str, list[Bounds | None]]:
        """Return the bounds of the slices in their order, by column; omit unknown columns."""
        found = {}
        with self._lock:
            for column in dict.fromkeys(columns):
                known = self._known.pop((dataset, column), None)
                if known is not None:
                    self._known[dataset, column] = known
                    found[column] = [known.get(each) for each in slices]
        return found

    def learn(self, dataset: str, learned: Iterable[Learned]) -> None:
        """Add the bounds that a read has learned."""
        with self._lock:
            for name, column, bounds in learned:
                known = self._known.setdefault((dataset, column), {})
                self._count += name not in known
                known[name] = bounds
            while self._count > self._most:
                first = next(iter(self._known))
                self._count -= len(self._known.pop(first))
