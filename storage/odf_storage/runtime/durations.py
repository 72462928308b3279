"""Durations in the form that users write: `90m`, `24h`, `2d`, `45s`."""

from __future__ import annotations

from datetime import timedelta

from odf_protocol.errors import BadInput

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class UnreadableDuration(BadInput):
    """The text is not a duration such as 24h, 90m or 2d."""


def parse_duration(text: str) -> timedelta:
    """Parse `90m`, `24h`, `2d` or `45s`. Raises `UnreadableDuration`."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 6 and unit in SECONDS):
        raise UnreadableDuration(f"a time is written as 90m, 24h or 2d; not {text[:50]!r}")
    return timedelta(seconds=int(number) * SECONDS[unit])
