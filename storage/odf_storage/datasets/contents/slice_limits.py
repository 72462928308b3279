"""Limits for the check of slices, in a module that does not load Arrow. Sizes are in bytes."""

from __future__ import annotations

from msgspec import Struct

MAX_SLICE_RATIO = 1000
"""How often larger than its file the values of a received slice may be; 64 MiB are always taken."""

SLICE_CHECK_S = 300.0
"""Seconds looking at received slices may take, for each GiB of them begun."""


class GateLimits(Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of the gate."""

    memory: int
    """Memory limit of the process that checks."""
    seconds: float
    """Time limit, in seconds for each GiB begun."""
    ratio: int
    """Limit of the ratio of decoded values to the size of their file."""
    hashed_at_once: int | None = None
    """Limit of the bytes of slices in one commit whose rows are hashed before the head moves. None:
    no limit."""


class CheckLimits(Struct, frozen=True, kw_only=True):
    """How many bytes may be decoded from a slice, and whether its rows are hashed."""

    ratio: int
    """Limit of the ratio of decoded bytes to the bytes of the file. It applies above an amount that
    every file may hold."""
    rows: bool = True
    values: bool = True
    """Whether values are judged. Not of a slice that is already in the chain: it is what its block
    declares."""
