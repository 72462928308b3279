"""One object that is not what a block says, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from odf_node.protocol.instant import Instant

from .values import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """An object of a dataset, found damaged or missing. Open until `healed_at`."""

    key: ObjectKey
    found_at: Instant
    reason: str
    """`damaged` or `missing`."""
    next_at: Instant
    """When healing is tried again."""
    tries: int = 0
    hopeless: str | None = None
    """Why the last try cannot succeed by being repeated soon, if that is so."""
    healed_at: Instant | None = None
    healed_from: str | None = None

    @property
    def is_open(self) -> bool:
        return self.healed_at is None
