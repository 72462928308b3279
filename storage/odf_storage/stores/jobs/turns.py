"""Decides whose job is next. Accounts take turns, so that a busy account delays others by one job.

The account with the fewest running jobs is first, then the account whose last turn was longest
ago, then the oldest job. A job that was started before, and whose worker died or put it back,
lets the others go first for some time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odf_protocol.instant import Instant

NOBODY = ""
"""Party of jobs that have neither an account nor a dataset."""
GIVES_WAY_S = 300
"""Seconds after which a job that was started before has its turn like the others."""
ALONE_AFTER = 2
"""After this number of worker deaths a job runs alone, to find out which job of a group kills."""
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that may start. `rested` is the end of its lease, if it was started before."""

    number: int
    party: str
    rested: Instant | None = None

    def gives_way(self, now: Instant) -> bool:
        return self.rested is not None and now.ns < self.rested.ns + GIVES_WAY_S * 10**9


class Turns:
    """Turns that this process remembers. A new instance starts with the oldest job."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._count = 0
        self._lock = threading.Lock()

    def in_order(
        self, candidates: Iterable[Candidate], running: Mapping[str, int], now: Instant
    ) -> list[Candidate]:
        """Return the candidates in the order of their turns."""
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
        """Order parties by their turns; `oldest` is the number of each party's oldest job."""
        return sorted(
            oldest,
            key=lambda party: (running.get(party, 0), self._last.get(party, 0), oldest[party]),
        )

    def took(self, parties: Iterable[str]) -> None:
        """Record that these parties had their turn."""
        with self._lock:
            self._count += 1
            for party in parties:
                self._last.pop(party, None)
                self._last[party] = self._count
            while len(self._last) > MAX_KNOWN:
                del self._last[next(iter(self._last))]
