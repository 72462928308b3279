"""Byte ranges of a request, as defined by RFC 9110 (section 14).

A malformed header, or one with too many ranges, counts as absent: the response is then the
whole object.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_RANGES = 64
"""Limit of ranges in one request; readers of Parquet request a handful."""
MAX_HEADER_CHARS = 4096
_UNIT = "bytes="
_RANGE = re.compile(r"(\d{0,18})-(\d{0,18})", re.ASCII)


class Unsatisfiable(ValueError):
    """None of the ranges contains a byte of the object."""


class Span(NamedTuple):
    """Consecutive bytes of an object."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """Position behind the last byte."""
        return self.start + self.length


def parse_ranges(header: str | None, size: int) -> tuple[Span, ...]:
    """Return the spans to send of an object of `size` bytes. Empty means the whole object: there
    is no header, it has another unit, or it is malformed.

    Spans stay in the requested order. If some overlap, all are sorted and joined instead, so that
    no byte is sent twice.

    Raises:
        Unsatisfiable: the ranges are well-formed, but contain no byte of the object.
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
    """Return first and last position, one of which may be absent; None for malformed text."""
    match = _RANGE.fullmatch(text)
    if match is None or match.groups() == ("", ""):
        return None
    first, last = (int(digits) if digits else None for digits in match.groups())
    return None if first is not None and last is not None and last < first else (first, last)


def _span(first: int | None, last: int | None, size: int) -> Span | None:
    """Return the part of a range inside the object; None if there is none."""
    if first is None:
        length = min(last or 0, size)
        return Span(size - length, length) if length else None
    end = size if last is None else min(last + 1, size)
    return Span(first, end - first) if first < size else None


def _joined(spans: list[Span]) -> list[Span]:
    """Return the spans, sorted and joined if some overlap, so that they contain each byte once."""
    ordered = sorted(spans)
    joined = ordered[:1]
    for span in ordered[1:]:
        last = joined[-1]
        if span.start >= last.end:
            joined.append(span)
        else:
            joined[-1] = Span(last.start, max(last.end, span.end) - last.start)
    return spans if len(joined) == len(spans) else joined
