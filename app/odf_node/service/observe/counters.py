"""Counters of the service, as plain numbers, so that only a scrape costs time.

Only the thread of the event loop counts, so no counter needs a lock.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram's buckets in seconds."""


@dataclass(slots=True)
class Durations:
    """A histogram: the count of each bucket (the last one is unbounded) and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class Answered:
    """The number of responses of one kind, and the bytes of their bodies."""

    count: int = 0
    body_bytes: int = 0

    def add(self, body_bytes: int) -> None:
        self.count += 1
        self.body_bytes += body_bytes


@dataclass(slots=True)
class Counters:
    """The counters of one service process since its start."""

    answers: dict[tuple[str, str, int], Answered] = field(default_factory=dict)
    """Responses by method, route and status."""
    durations: dict[tuple[str, str], Durations] = field(default_factory=dict)
    """Durations by method and route."""
    transfers: dict[tuple[str, int], int] = field(default_factory=dict)
    """Ended smart transfers, by `pull` or `push` and close code."""
    slices_opened: int = 0
    """Slices that queries, filtered reads and lookups opened."""
    slices_left_out: int = 0
    """Slices that these skipped, since they have no row of the answer."""
    in_flight: int = 0
    stalls: int = 0
    """Pauses of the event loop that the watchdog noticed."""
    longest_stall_s: float = 0.0
    deeds_lost: int = 0
    """Audit entries that could not be recorded in the index; they are in the log of the process."""

    def answered(self, method: str, route: str, status: int) -> Answered:
        """Return the counter of such responses; callers may keep a reference to it."""
        key = (method, route, status)
        found = self.answers.get(key)
        if found is None:
            found = self.answers[key] = Answered()
        return found

    def took(self, method: str, route: str, seconds: float) -> None:
        key = (method, route)
        found = self.durations.get(key)
        if found is None:
            found = self.durations[key] = Durations()
        found.add(seconds)

    def stood_still(self, seconds: float) -> None:
        """Count a pause of the event loop."""
        self.stalls += 1
        self.longest_stall_s = max(self.longest_stall_s, seconds)

    def filtered(self, scanned: int, total: int) -> None:
        """Count an answer that opens `scanned` of `total` slices."""
        self.slices_opened += scanned
        self.slices_left_out += total - scanned

    def transferred(self, exchange: str, code: int) -> None:
        self.transfers[exchange, code] = self.transfers.get((exchange, code), 0) + 1
