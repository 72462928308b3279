"""Where ranges of rows lie in slices, as soon as the rows and costs of the ranges are known.

The rows of a range are not sorted yet. A slice that begins or ends within a range needs all its
rows: its writer sorts them and takes those of the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..slices.costs import Cut, costs_of

Counts = npt.NDArray[np.int64]
MOST_RECEIVED = 1.5
"""Most rows that all writers receive, as a multiple of the rows that there are."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Ranges of the final order, and how many rows of each there are."""

    cut: Cut
    parts: tuple[tuple[int, ...], ...]
    """For each partition the rows of each range, in whose order they are."""
    costs: tuple[int, ...]
    """The cost of each range."""

    @cached_property
    def rows(self) -> Counts:
        """Rows of each range."""
        return np.array([sum(each) for each in zip(*self.parts, strict=True)], np.int64)

    @cached_property
    def starts(self) -> Counts:
        """Cost of all rows before each range, and of all rows."""
        return np.concatenate([[0], np.cumsum(self.costs)]).astype(np.int64)

    @classmethod
    def of_one(cls, cut: Cut, rows: Sequence[int], cost: int) -> Layout:
        """Return the layout of one range that has all rows, given those of each partition."""
        return cls(cut=cut, parts=tuple((each,) for each in rows), costs=(cost,))

    @property
    def count(self) -> int:
        """Number of slices."""
        return self.cut.count(int(self.starts[-1]))

    @property
    def is_fine(self) -> bool:
        """Whether ranges are small enough that writers of slices receive few rows twice."""
        return bool(self._received.sum() <= MOST_RECEIVED * self.starts[-1])

    def largest(self, size: int) -> int:
        """Return the bytes that the writer of the largest slice receives, if all rows have `size`
        bytes."""
        return int(self._received.max(initial=0)) * size // max(1, int(self.starts[-1]))

    @cached_property
    def _received(self) -> Counts:
        """Cost of the rows that the writer of each slice receives."""
        received = np.zeros(self.count, np.int64)
        for (first, last), cost in zip(self._spans, self.costs, strict=True):
            received[first : last + 1] += cost
        return received

    def dealt(
        self, number: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each range of a partition with the slices that need them, whose
        writers sort them."""
        ends, before = np.cumsum(self.parts[number]), 0
        for batch in batches:
            at, end = before, before + batch.num_rows
            while at < end:
                span, last = self._run(int(np.searchsorted(ends, at, "right")))
                until = min(int(ends[last]), end)
                whole = until - at == batch.num_rows
                rows = batch if whole else batch.slice(at - before, until - at)
                for slice_ in range(span[0], span[1] + 1):
                    yield slice_, rows
                at = until
            before = end

    def taken(self, slice_: int, rows: pa.Table) -> tuple[int, pa.Table]:
        """Return the rows of a slice, and the number of rows before it. `rows` are sorted, and are
        all rows of the ranges of which the slice has rows."""
        first = next(at for at, (_, last) in enumerate(self._spans) if last >= slice_)
        before = int(self.rows[:first].sum())
        if self.count == 1:
            return before, rows
        costs = costs_of(rows, self.cut)
        numbers = (int(self.starts[first]) + np.cumsum(costs) - costs) // self.cut.size
        start, end = np.searchsorted(numbers, [slice_, slice_ + 1])
        return before + int(start), rows.slice(int(start), int(end - start))

    def _run(self, at: int) -> tuple[tuple[int, int], int]:
        """Return the slices of a range, and the last range after it with the same ones."""
        last = at
        while last + 1 < len(self._spans) and self._spans[last + 1] == self._spans[at]:
            last += 1
        return self._spans[at], last

    @cached_property
    def _spans(self) -> Sequence[tuple[int, int]]:
        """For each range the first and the last slice that have rows of it."""
        size, spans = self.cut.size, []
        for start, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            spans.append((int(start) // size, max(int(start), int(end) - 1) // size))
        return spans
