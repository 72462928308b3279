"""Bounds of columns in slices, as a service remembers them: learned by reads, given to later ones.

Brings no Arrow. A slice never changes, so nothing here grows old; the memory is bounded, and what
was asked for least recently goes first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec

Learned = tuple[str, str, "Bounds"]
"""Hash of a slice, column, bounds."""


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    """Of a column in a slice. Both None: it has no value but null and NaN."""

    type: str
    """Of the column when its values were read, as Arrow names it."""
    least: int | float | str | bool | None
    greatest: int | float | str | bool | None


class LearnedBounds:
    """A memory of one process; safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """`most`: bounds that are remembered, some 300 bytes each; 0: none."""
        self._most, self._count = most, 0
        self._known: dict[tuple[str, str], dict[str, Bounds]] = {}
        """By dataset and column, the last ones asked for at the end; in them by slice."""
        self._lock = threading.Lock()

    def of(
        self, dataset: str, columns: Iterable[str], slices: Sequence[str]
    ) -> dict[str, list[Bounds | None]]:
        """Bounds of the slices in their order, by column; without columns nothing is known of."""
        found = {}
        with self._lock:
            for column in dict.fromkeys(columns):
                known = self._known.pop((dataset, column), None)
                if known is not None:
                    self._known[dataset, column] = known
                    found[column] = [known.get(each) for each in slices]
        return found

    def learn(self, dataset: str, learned: Iterable[Learned]) -> None:
        """What a read found out."""
        with self._lock:
            for name, column, bounds in learned:
                known = self._known.setdefault((dataset, column), {})
                self._count += name not in known
                known[name] = bounds
            while self._count > self._most:
                first = next(iter(self._known))
                self._count -= len(self._known.pop(first))
