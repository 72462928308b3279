"""One byte range of a request, as RFC 9110 has it. Anything unusual means the whole."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Unsatisfiable(ValueError):
    """The range begins behind the end."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte and length, or None for the whole: no header, several ranges, other units.

    Raises:
        Unsatisfiable: a well-formed range of which nothing exists.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        if length == 0:
            raise Unsatisfiable
        return size - length, length
    start = int(first)
    end = min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return start, end - start + 1
