"""Whether a float keeps the number that a text says: with as many digits, it is written the same.

A number of few digits always does, unless it is so small that floats have fewer digits there.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from math import isfinite

SAFE_DIGITS = {16: 3, 32: 6, 64: 15}
"""Digits that every float of so many bits keeps."""
_SMALLEST = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}
"""Below these, floats have fewer digits."""
_MOST_DIGITS = 800
"""No float has more digits, however many are written."""
_FIGURE = re.compile(r"[0-9]")


def keeps(text: str, value: float, bits: int = 64) -> bool:
    """Whether the float, of so many bits, into which a text was read says all that this says."""
    if len(text) <= SAFE_DIGITS[bits] and abs(value) >= _SMALLEST[bits]:
        return True
    head, _, exponent = text.partition("e")
    places = len(head) - head.index(".") - 1 if "." in head else 0
    if text == f"{value:.{min(places, _MOST_DIGITS)}{'e' if exponent else 'f'}}":
        return True  # as most programs write a number of so many digits
    if not isfinite(value):
        return _FIGURE.search(text) is None
    try:
        exact = Decimal(text.strip())
    except InvalidOperation:
        return False  # an exponent beyond all decimals
    figures = "".join(_FIGURE.findall(text.lower().partition("e")[0]))
    digits = len(figures.strip("0")) or 1
    if digits <= SAFE_DIGITS[bits] and (abs(value) >= _SMALLEST[bits] or exact == value):
        return True
    return exact in (Decimal(f"{value:.{min(digits, _MOST_DIGITS)}g}"), Decimal(repr(value)))
