"""How far a look at slices goes; apart from `look.py`, which loads Arrow. Sizes in bytes."""

from __future__ import annotations

from msgspec import Struct


class GateLimits(Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of the gate."""

    memory: int
    """Of the process that looks."""
    seconds: float
    """For each GiB that is begun."""
    ratio: int
    """Of values to their file."""
    hashed_at_once: int | None = None
    """Slices of one commit whose rows are hashed before the head moves; None: any."""


class CheckLimits(Struct, frozen=True, kw_only=True):
    """How much may come out of a slice, and whether its rows are hashed."""

    ratio: int
    """Of the bytes of its values to those of the file, beyond what any file may hold."""
    rows: bool = True
