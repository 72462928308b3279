"""What a merge finds wrong with rows of the batch, and what becomes of it.

Findings of many partitions add up: errors and warnings are the same however rows were dealt out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

import numpy as np
import numpy.typing as npt

from odf_node.protocol.source_options import RetractionRule

from ..slices.columns import CannotMerge

SHOWN_ROWS = 10
"""So many rows are named by an error or a warning."""


class NotWhatStands(CannotMerge):
    """A row of a changelog takes back a row that is another one, or is not there."""


@dataclass(frozen=True, slots=True)
class Problems:
    """How many rows have one, and position and text of the first of them in the input."""

    count: int = 0
    first: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, positions: npt.NDArray[np.int64], text: Callable[[int], str]) -> Problems:
        """Of rows at those positions; `text` is asked by their place among the positions."""
        places = np.argsort(positions, kind="stable")[:SHOWN_ROWS]
        return cls(len(positions), tuple((int(positions[at]), text(int(at))) for at in places))

    @classmethod
    def joined(cls, parts: Iterable[Problems]) -> Problems:
        """Of all partitions."""
        count, first = 0, [(0, "")][:0]
        for part in parts:
            count += part.count
            first = nsmallest(SHOWN_ROWS, [*first, *part.first])
        return cls(count, tuple(first))

    @property
    def text(self) -> str:
        """Those that are named, and how many more there are."""
        more = self.count - len(self.first)
        listed = "; ".join(text for _, text in self.first)
        return f"{listed}, and {more} more" if more else listed


NONE = Problems()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`refused`: rows that must not be written. `not_standing`: rows of a changelog that take back
    what does not stand."""

    refused: Problems = NONE
    not_standing: Problems = NONE

    @classmethod
    def joined(cls, parts: Sequence[Findings]) -> Findings:
        """Of all partitions."""
        return cls(
            refused=Problems.joined(part.refused for part in parts),
            not_standing=Problems.joined(part.not_standing for part in parts),
        )


NOTHING = Findings()


def judged(findings: Findings, rule: RetractionRule) -> tuple[str, ...]:
    """What to warn of.

    Raises:
        CannotMerge: a row must not be written; the first of them in the input is named.
        NotWhatStands: unless the source wants to be warned only.
    """
    for _, text in findings.refused.first[:1]:
        raise CannotMerge(text)
    if not findings.not_standing.count:
        return ()
    if rule is RetractionRule.WARN:
        return (findings.not_standing.text,)
    raise NotWhatStands(findings.not_standing.text, rows=findings.not_standing.count)
