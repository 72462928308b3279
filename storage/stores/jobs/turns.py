"""Whose job is next: accounts take turns, so that one with much to do delays others by one job.

The account with the fewest jobs running comes first, of those the one whose last turn is longest
ago, then the oldest job. A job that was begun before, and whose worker ended or put it back, lets
the others go first, for some time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odf_node.protocol.instant import Instant

NOBODY = ""
"""Whose jobs are that neither an account asked for nor a dataset is the reason of."""
GIVES_WAY_S = 300
"""Seconds after which a job that was begun before has its turn like the others."""
ALONE_AFTER = 2
"""A job that so many workers ended with runs alone: it is seen which of a group ends them."""
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that may start. `rested` is when its lease ended, of one that was begun before."""

    number: int
    party: str
    rested: Instant | None = None

    def gives_way(self, now: Instant) -> bool:
        return self.rested is not None and now.ns < self.rested.ns + GIVES_WAY_S * 10**9


class Turns:
    """What this process remembers of turns; a new one begins with the oldest job."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._count = 0
        self._lock = threading.Lock()

    def in_order(
        self, candidates: Iterable[Candidate], running: Mapping[str, int], now: Instant
    ) -> list[Candidate]:
        """The candidates, the one whose turn it is first."""
        started = Counter(running)
        ranked = []
        for each in sorted(candidates, key=lambda each: (each.gives_way(now), each.number)):
            key = (each.gives_way(now), started[each.party], self._last.get(each.party, 0))
            ranked.append((*key, each.number, each))
            started[each.party] += 1
        return [each[-1] for each in sorted(ranked, key=lambda row: row[:-1])]

    def parties_in_order(
        self, oldest: Mapping[str, int], running: Mapping[str, int]
    ) -> Sequence[str]:
        """Parties by whose turn it is; of each the number of its oldest job is given."""
        return sorted(
            oldest,
            key=lambda party: (running.get(party, 0), self._last.get(party, 0), oldest[party]),
        )

    def took(self, parties: Iterable[str]) -> None:
        """These had their turn."""
        with self._lock:
            self._count += 1
            for party in parties:
                self._last.pop(party, None)
                self._last[party] = self._count
            while len(self._last) > MAX_KNOWN:
                del self._last[next(iter(self._last))]
