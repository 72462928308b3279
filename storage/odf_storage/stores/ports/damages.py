"""Port for the log of damaged and missing objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odf_protocol.instant import Instant

from .damage_values import Damage
from .values import ObjectKey


class DamageLog(Protocol):
    """Damaged and missing objects, one row each. Forgetting a dataset removes its rows.

    The log ignores objects of unregistered datasets, and changes to objects that it does not
    contain.
    """

    def note(self, damage: Damage) -> bool:
        """Record a damage. Return True if the log did not contain it as an open damage."""

    def find(self, key: ObjectKey) -> Damage | None: ...
    def open(self, *, limit: int = 100) -> Sequence[Damage]:
        """Return the objects that are not healed, the earliest found first."""

    def count(self) -> int:
        """Return the number of open damages."""

    def tried(self, key: ObjectKey, *, next_at: Instant, hopeless: str | None = None) -> None:
        """Count one more attempt to heal the object; an attempt counts when it begins."""

    def hasten(self, *, at: Instant) -> None:
        """Make every open damage due at that time, including the hopeless ones."""

    def healed(self, key: ObjectKey, *, at: Instant, source: str) -> bool:
        """Mark the object as healed from `source`. Return whether the damage was open."""

    def prune(self, *, before: Instant) -> int:
        """Delete the damages that were healed before that time; return their number."""
