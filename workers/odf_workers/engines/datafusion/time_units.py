"""Times of several units in one comparison.

The engine compares two times at the coarser of their units, and cuts the digits of the other one
first: 20.123 s is equal to 20.123456 s for it. `meaning.py` has columns compared at the finer unit.
A text with more digits than the column is cut here, and the comparison with it becomes one that
gives the same answer: no time of the column lies between the text and what is left of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from odf_protocol.flight_sql import bytes_field, fields, varint_field

from .plan_messages import (
    CALL,
    CAST,
    EXPRESSIONS,
    LITERAL,
    binary,
    children,
    name_of,
    opened,
    remade,
)

DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a second, by unit."""
_FRACTION = re.compile(rb"(:\d\d)\.(\d+)")
_TEXTS = frozenset({2, 3, 23})
"""Fields of a literal that are texts."""
MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}


def finer_types(times: Mapping[bytes, pa.DataType]) -> dict[bytes, pa.DataType]:
    """Return the type of the finest unit for each time that has a coarser one."""
    if not times:
        return {}
    finest = max((kind.unit for kind in times.values()), key=DIGITS.__getitem__)
    return {
        each: pa.timestamp(finest, kind.tz) for each, kind in times.items() if kind.unit != finest
    }


def cut_text(expression: bytes, unit: str) -> bytes | None:
    """Return a literal text, or the cast of one, without the digits that are finer than the unit;
    None if there are none, or if it is another expression."""
    kind, content = opened(expression)
    if kind == CAST or (kind == CALL and name_of(content) == "arrow_cast"):
        given, *others = children(content, EXPRESSIONS[kind])
        made = cut_text(given, unit) if opened(given)[0] == LITERAL else None
        if made is None:
            return None
        parts = iter([made, *others])
        return bytes_field(kind, remade(content, EXPRESSIONS[kind], lambda *_: next(parts)))
    if kind != LITERAL:
        return None
    ((number, text), *_) = fields(content)
    if number not in _TEXTS or not isinstance(text, bytes):
        return None
    found = _FRACTION.search(text)
    if found is None or not found[2][DIGITS[unit] :].strip(b"0"):
        return None
    left = found[2][: DIGITS[unit]]
    cut = text[: found.end(1)] + (b"." + left if left else b"") + text[found.end() :]
    return bytes_field(LITERAL, bytes_field(number, cut))


def compared_with_cut(operator: str, time: bytes, cut: bytes) -> bytes:
    """Return what a comparison of a time with a text is, by what is left of the text."""
    match operator:
        case "Lt" | "LtEq":
            return binary("LtEq", time, cut)
        case "Gt" | "GtEq":
            return binary("Gt", time, cut)
        case "Eq":  # false, and null where the time is
            return binary("And", binary("Lt", time, cut), binary("Gt", time, cut))
        case "NotEq":
            return binary("Or", binary("LtEq", time, cut), binary("Gt", time, cut))
        case _:
            return bytes_field(LITERAL, varint_field(1, int(operator == "IsDistinctFrom")))
