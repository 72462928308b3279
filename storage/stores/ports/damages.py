"""Which objects are not whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odf_node.protocol.instant import Instant

from .damage_values import Damage
from .values import ObjectKey


class DamageLog(Protocol):
    """Damaged and missing objects, each once. A row goes with its dataset.

    Of datasets that are not registered nothing is noted. What is changed of an object that is
    not noted changes nothing.
    """

    def note(self, damage: Damage) -> bool:
        """Whether it is news: the object was whole before, by all that is noted."""

    def find(self, key: ObjectKey) -> Damage | None: ...
    def open(self, *, limit: int = 100) -> Sequence[Damage]:
        """Those that are not healed, the longest known first."""

    def count(self) -> int:
        """How many are open."""

    def tried(self, key: ObjectKey, *, next_at: Instant, hopeless: str | None = None) -> None:
        """Healing was tried once more, or begun."""

    def hasten(self, *, at: Instant) -> None:
        """All that are open may be tried then, also those that were given up."""

    def healed(self, key: ObjectKey, *, at: Instant, source: str) -> bool:
        """Whether it was open."""

    def prune(self, *, before: Instant) -> int:
        """Forget those that were healed before then; returns how many."""
