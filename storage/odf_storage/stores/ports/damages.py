"""Port for the log of damaged and missing objects.

An object whose stored bytes do not match its block, and the state of its healing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from odf_protocol.instant import Instant

from .values import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """An object of a dataset that was found damaged or missing. Open until `healed_at` is set."""

    key: ObjectKey
    found_at: Instant
    reason: str
    """`damaged` or `missing`."""
    next_at: Instant
    """When the next attempt to heal it is due."""
    tries: int = 0
    hopeless: str | None = None
    """Reason why a repetition of the last attempt would soon fail again, or None."""
    healed_at: Instant | None = None
    healed_from: str | None = None

    @property
    def is_open(self) -> bool:
        return self.healed_at is None


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
