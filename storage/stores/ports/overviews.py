"""Lists of datasets: found, filtered, ordered and counted in the index, without their chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odf_node.protocol.identity import DatasetId

from .overview_values import After, Listed, Order, Overview, Wanted


class OverviewReads(Protocol):
    """Lists of the datasets that a caller may read."""

    def page(
        self,
        wanted: Wanted,
        order: Order = Order(),
        *,
        after: After | None = None,
        skip: int = 0,
        limit: int = 100,
    ) -> Sequence[Listed]:
        """At most `limit` datasets behind `after`, without the first `skip` of them."""

    def count(self, wanted: Wanted) -> int:
        """How many datasets all pages hold together."""


class OverviewWork(Protocol):
    """Overviews keep up with heads."""

    def due(self, *, limit: int = 100) -> Sequence[DatasetId]:
        """Datasets whose overview is not that of their head."""

    def put(self, overviews: Mapping[DatasetId, Overview]) -> None:
        """Add or replace; those of datasets that were forgotten are dropped."""


class OverviewStore(OverviewReads, OverviewWork, Protocol):
    """Both; those who use one name the part that they need."""
