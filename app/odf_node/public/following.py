"""Follow a dataset: yield its changes as they arrive.

Events and polls only trigger a read. The new rows are read from the last position on, so broken
connections and restarts of the node neither lose nor repeat rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import chain
from types import TracebackType
from typing import TypeVar

import httpx

from odf_protocol.errors import BadInput
from odf_protocol.multihash import Multihash

from ..client import events
from ..client.ending import Ending
from ..client.http import TransferFailed, Unreachable, open_http, unreachable
from ..client.sync import opened
from .changes import Changes, Position, changes_since
from .place import Place
from .rows import RowSource

POLL_S = 2.0
"""Seconds between two checks of the head of a folder or a bucket."""
PAUSE_S = 1.0
"""Seconds until rows are requested again from a node that was unavailable."""

T = TypeVar("T")


class NothingToFollow(BadInput):
    """A dataset as of one block, which does not change."""


class ImpossiblePace(BadInput):
    """A limit of less than one row, or an invalid time."""


class Following(Iterator[Changes]):
    """Iterator of changes, each with the position after it; created by `Dataset.follow`.

    It ends after the time-out without changes, or when any thread calls `stop`.
    """

    def __init__(
        self,
        place: Place,
        source: RowSource,
        since: Position,
        *,
        timeout_s: float | None,
        poll_s: float | None,
        limit: int,
    ) -> None:
        if limit < 1 or (poll_s is not None and poll_s <= 0) or (timeout_s or 0) < 0:
            raise ImpossiblePace(
                "limit is 1 row or more, poll more than 0 seconds, timeout 0 seconds or more",
                limit=limit,
            )
        self._place, self._source, self._limit = place, source, limit
        self._poll_s = poll_s if place.is_served else poll_s or POLL_S
        self._ending = Ending(timeout_s)
        self.position = since
        """Position after the rows that were returned."""
        self._changes = self._found()

    def __next__(self) -> Changes:
        self._ending.renew()
        return next(self._changes)

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._changes.close()

    def stop(self) -> None:
        """End the iteration, also while another thread waits in it."""
        self._ending.stop()

    def _found(self) -> Generator[Changes]:
        moves = self._moves() if self._poll_s is None else self._polls(self._poll_s)
        for _ in chain([None], moves):
            is_full = True
            while is_full and not self._ending.is_stopped():
                changes = self._patiently(self._read)
                if changes is None:
                    return
                self.position = changes.position
                is_full = changes.rows.num_rows == self._limit
                if changes.rows.num_rows:
                    yield changes

    def _moves(self) -> Iterator[None]:
        """Yield whenever the node reports rows after the position, or another history."""
        place = self._place
        url = f"{place.location.base}events"
        try:
            with open_http() as http:
                for event in events.follow(http, url, place.token, ending=self._ending):
                    if self._is_new(event):
                        yield
        except httpx.TransportError as error:
            raise unreachable(url, error) from error

    def _is_new(self, event: events.Event) -> bool:
        if event.kind == "block":
            offsets = event.data.get("offsets")
            return isinstance(offsets, dict) and offsets.get("end", -1) >= self.position.offset
        return event.data.get("block") != self.position.block

    def _polls(self, poll_s: float) -> Iterator[None]:
        """Yield whenever the head differs from that of the last check."""
        known = self.position.block
        while not self._ending.is_over():
            head = self._patiently(self._head)
            if head is not None and str(head) != known:
                known = str(head)
                yield
            self._ending.wait(poll_s)

    def _head(self) -> Multihash:
        with opened(self._place.location, self._place.token) as repository:
            return repository.head()

    def _read(self) -> Changes:
        return changes_since(self._source, None, self.position, limit=self._limit)

    def _patiently(self, action: Callable[[], T]) -> T | None:
        """Repeat the action while the node is unavailable; return None if the iteration is stopped
        meanwhile."""
        while True:
            try:
                return action()
            except TransferFailed as failed:
                if not _passes(failed):
                    raise
                self._ending.wait(PAUSE_S)
                if self._ending.is_stopped():
                    return None
                if self._ending.is_over():
                    raise


def _passes(failed: TransferFailed) -> bool:
    """Whether the node may soon be available again."""
    return isinstance(failed, Unreachable) or failed.facts.get("status") in events.PASSING
