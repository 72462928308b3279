"""The names of datasets that a query may have meant by a table that there is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from .engine import InvalidQuery

MOST_NAMES = 1_000
"""Limit of names that are compared, as a suggestion is not worth more."""
SHOWN = 3
_UNKNOWN = re.compile(r"table '(?:kamu\.kamu\.)?(?P<name>[^']{1,200})' not found")


def with_near_names(
    bad: InvalidQuery,
    names: Callable[[], Sequence[str]],
    renamed: Callable[[str], str | None],
) -> InvalidQuery:
    """Return the error with the name of today of a table that is not found, as `renamed` says it,
    or those of the names that are nearest to it."""
    unknown = _UNKNOWN.match(bad.message)
    if unknown is None:
        return bad
    if now := renamed(unknown["name"]):
        return InvalidQuery(f'{bad.message}; it was renamed to "{now}"', **bad.facts, nearest=[now])
    near = get_close_matches(unknown["name"], names(), n=SHOWN)
    if not near:
        return bad
    meant = " or ".join(f'"{name}"' for name in near)
    return InvalidQuery(f"{bad.message}; did you mean {meant}?", **bad.facts, nearest=near)
