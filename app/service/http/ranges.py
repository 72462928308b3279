"""Byte ranges of a request, as RFC 9110 (section 14) has them.

What is no well-formed set of byte ranges counts as absent, and so does one of more ranges
than anybody needs: the answer is then the whole.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_RANGES = 64
"""Ranges of one request; readers of Parquet ask for a handful."""
MAX_HEADER_CHARS = 4096
_UNIT = "bytes="
_RANGE = re.compile(r"(\d{0,18})-(\d{0,18})", re.ASCII)


class Unsatisfiable(ValueError):
    """Every range begins behind the end."""


class Span(NamedTuple):
    """Consecutive bytes of an object."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """Position behind the last byte."""
        return self.start + self.length


def parse_ranges(header: str | None, size: int) -> tuple[Span, ...]:
    """What to send of `size` bytes; empty for the whole: no header, other units, malformed.

    Ranges that exist are kept in the order asked for, but once some overlap they are sorted
    and joined, so that no byte is sent twice.

    Raises:
        Unsatisfiable: well-formed ranges of which nothing exists.
    """
    if header is None or len(header) > MAX_HEADER_CHARS or header[:6].lower() != _UNIT:
        return ()
    asked = [part.strip(" \t") for part in header[len(_UNIT) :].split(",")]
    asked = [part for part in asked if part]  # empty members of a list are allowed
    if not asked or len(asked) > MAX_RANGES:
        return ()
    bounds = [_bounds(part) for part in asked]
    if None in bounds:
        return ()
    spans = [span for one in bounds if one and (span := _span(*one, size)) is not None]
    if not spans:
        raise Unsatisfiable
    return tuple(_joined(spans))


def _bounds(text: str) -> tuple[int | None, int | None] | None:
    """First and last position, one of them absent; None for what is no range."""
    match = _RANGE.fullmatch(text)
    if match is None or match.groups() == ("", ""):
        return None
    first, last = (int(digits) if digits else None for digits in match.groups())
    return None if first is not None and last is not None and last < first else (first, last)


def _span(first: int | None, last: int | None, size: int) -> Span | None:
    """The part of a range that exists; None if there is none."""
    if first is None:
        length = min(last or 0, size)
        return Span(size - length, length) if length else None
    end = size if last is None else min(last + 1, size)
    return Span(first, end - first) if first < size else None


def _joined(spans: list[Span]) -> list[Span]:
    """The same bytes, each once."""
    ordered = sorted(spans)
    joined = ordered[:1]
    for span in ordered[1:]:
        last = joined[-1]
        if span.start >= last.end:
            joined.append(span)
        else:
            joined[-1] = Span(last.start, max(last.end, span.end) - last.start)
    return spans if len(joined) == len(spans) else joined
