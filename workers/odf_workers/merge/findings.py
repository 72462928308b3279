"""Problems that a merge finds in rows of the batch, and their consequences.

Findings of partitions can be joined: errors and warnings are the same however rows were
partitioned. A merge knows the positions of rows among the good rows; their numbers in the input
are known once all rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

import numpy as np
import numpy.typing as npt

from odf_protocol.source_options import RetractionRule

from ..slices.columns import CannotMerge

NumberOf = Callable[[int], int]
"""Returns the number of a row in the input, from 1, for its position among the good rows."""
SHOWN_ROWS = 10
"""Number of rows that an error or a warning names."""


class NotWhatStands(CannotMerge):
    """A row of a changelog retracts a row that differs from the current one, or that does not
    exist."""


@dataclass(frozen=True, slots=True)
class Problems:
    """The number of rows with a problem, and the position and text of the first ones in the
    input. A text continues the words "row N"."""

    count: int = 0
    first: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, positions: npt.NDArray[np.int64], text: Callable[[int], str]) -> Problems:
        """Return the problems of rows at these positions; `text` receives an index into the
        positions."""
        places = np.argsort(positions, kind="stable")[:SHOWN_ROWS]
        return cls(len(positions), tuple((int(positions[at]), text(int(at))) for at in places))

    @classmethod
    def joined(cls, parts: Iterable[Problems]) -> Problems:
        """Join the problems of all partitions."""
        count, first = 0, [(0, "")][:0]
        for part in parts:
            count += part.count
            first = nsmallest(SHOWN_ROWS, [*first, *part.first])
        return cls(count, tuple(first))

    def text(self, number_of: NumberOf) -> str:
        """Return the text of the first problems, and the number of further ones."""
        more = self.count - len(self.first)
        listed = "; ".join(f"row {number_of(at)} {text}" for at, text in self.first)
        return f"{listed}, and {more} more" if more else listed


NONE = Problems()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`refused`: rows that must not be written. `not_standing`: rows of a changelog that retract a
    row which is not current. `gave_way`: rows in whose place a later one of their key stands."""

    refused: Problems = NONE
    not_standing: Problems = NONE
    gave_way: Problems = NONE

    @classmethod
    def joined(cls, parts: Sequence[Findings]) -> Findings:
        """Join the findings of all partitions."""
        return cls(
            refused=Problems.joined(part.refused for part in parts),
            not_standing=Problems.joined(part.not_standing for part in parts),
            gave_way=Problems.joined(part.gave_way for part in parts),
        )


NOTHING = Findings()


def judged(findings: Findings, rule: RetractionRule, number_of: NumberOf) -> tuple[str, ...]:
    """Return the warnings.

    Raises:
        CannotMerge: a row must not be written; the error names the first one in the input.
        NotWhatStands: a changelog retracts rows that are not current, and the source does not ask
            for a mere warning.
    """
    for at, text in findings.refused.first[:1]:
        raise CannotMerge(f"row {number_of(at)} {text}")
    warnings: list[str] = []
    if findings.gave_way.count:
        warnings.append(_gave_way(findings.gave_way, number_of))
    if not findings.not_standing.count:
        return tuple(warnings)
    if rule is RetractionRule.WARN:
        return (*warnings, findings.not_standing.text(number_of))
    raise NotWhatStands(findings.not_standing.text(number_of), rows=findings.not_standing.count)


def _gave_way(problems: Problems, number_of: NumberOf) -> str:
    count = problems.count
    shown = ", ".join(str(number_of(at)) for at, _ in problems.first)
    some = "row" if count == 1 else "rows"
    more = f" and {count - len(problems.first)} more" if count > len(problems.first) else ""
    took = "which took its place" if count == 1 else "which took their place"
    return f"{count} {some} had the key of a later row, {took}: {some} {shown}{more}"
