"""An object whose stored bytes do not match its block, and the state of its healing."""

from __future__ import annotations

from dataclasses import dataclass

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
