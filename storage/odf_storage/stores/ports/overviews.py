"""Ports for lists of datasets, which are filtered, ordered and counted without their chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odf_protocol.identity import DatasetId

from .overview_values import After, Listed, Order, Overview, Wanted


class OverviewReads(Protocol):
    """Reads lists of the datasets that a caller may read."""

    def page(
        self,
        wanted: Wanted,
        order: Order = Order(),
        *,
        after: After | None = None,
        skip: int = 0,
        limit: int = 100,
    ) -> Sequence[Listed]:
        """Return up to `limit` datasets after position `after`, skipping the first `skip`."""

    def count(self, wanted: Wanted) -> int:
        """Return the number of datasets on all pages together."""


class OverviewWork(Protocol):
    """Updates overviews after heads have moved."""

    def due(self, *, limit: int = 100) -> Sequence[DatasetId]:
        """Return datasets whose overview does not match their head."""

    def put(self, overviews: Mapping[DatasetId, Overview]) -> None:
        """Add or replace overviews; ignore those of datasets that were forgotten."""


class OverviewStore(OverviewReads, OverviewWork, Protocol):
    """Both overview ports in one; code that uses the store names the part that it needs."""
