"""Units and enumerations that settings of several topics share."""

from __future__ import annotations

from enum import StrEnum

MIB = 1024 * 1024


class Tenancy(StrEnum):
    """Whether addresses of datasets include an account."""

    SINGLE = "single"
    MULTI = "multi"


class AnonymousReads(StrEnum):
    """Datasets that callers without a right of their own may read."""

    PUBLIC = "public"
    ALL = "all"
