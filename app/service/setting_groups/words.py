"""Units and words that settings of several topics share."""

from __future__ import annotations

from enum import StrEnum

MIB = 1024 * 1024


class Tenancy(StrEnum):
    """Whether dataset addresses carry an account."""

    SINGLE = "single"
    MULTI = "multi"


class AnonymousReads(StrEnum):
    """Which datasets callers read who have no right of their own."""

    PUBLIC = "public"
    ALL = "all"
