"""Rows that were read well and must not be stored: the first one fails the batch, or all are set
aside, with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from ..readers.rejected import Rejected, shown
from ..slices.frame import BadRow


class BadRows:
    """Takes the bad rows in the order of the input, which has `before` rows before these.

    Readers do not number lines while they read many rows at once. Only if a row is bad, `lines`
    reads the input again.
    """

    def __init__(self, lines: Iterator[int], rejected: Rejected | None, *, before: int) -> None:
        self._lines, self._rejected, self._before = lines, rejected, before
        self._passed = 0

    def met(self, batch: pa.RecordBatch, done: int, at: int, bad: BadRow) -> None:
        """Handle the row `at` of a batch, before which `done` good rows were read. Raises `BadRow`,
        `TooManyBadRows`."""
        if self._rejected is None:
            number = done + at + 1
            line = self._line(number)
            raise bad.in_row(self._before + number) if line is None else bad.at(line)
        bad = bad.at(self._line(self._rejected.number_of(done + at)))
        self._rejected.add_later(done + at, bad, shown(batch, at))

    def _line(self, number: int) -> int | None:
        """Return the line of the row with this number, which is higher than those before."""
        line = next(islice(self._lines, number - self._passed - 1, None), None)
        self._passed = number
        return line
