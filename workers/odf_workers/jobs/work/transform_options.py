"""Options of transforms that an administrator sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...plan.transform import IterationLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformOptions:
    """Settings of all transforms of a worker."""

    limits: IterationLimits = field(default_factory=IterationLimits)
    seconds: float = 30.0
    """Seconds after which a job begins no further iteration; another job continues."""
    reset_on_diverged: bool = False
    """Compute a derivative anew when an input was rewritten, instead of stopping."""
    cache_bytes: int = 8 << 30
    """Bytes of copies of remote slices that are kept for the next iterations."""
