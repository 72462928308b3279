"""What texts say beyond what their columns keep: digits of times and decimals, times of a day.

Readers cut these, as the reference does, and the publisher is told, once for each column.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .text import texts_content

FINER = "times finer than {}, which are cut: declare it as a text or as a whole number to keep them"
DIGITS = (
    "numbers with more digits after the point than {}, of which the rest is cut: declare more "
    "digits, or a text, to keep them"
)
OF_DAY = "times of day, which are cut: declare it as a Timestamp or as a text to keep them"
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TIME_OF_DAY = r"^[0-9-]+[Tt ].*[1-9]"
_DAY_CHARS = len("2025-01-31")
_SMALL = np.uint8(ord("a") ^ ord("A"))


class Losses:
    """Tells of each column of a file once if its texts lost something. `tell` takes a warning."""

    def __init__(self, tell: Callable[[str], object] = lambda _: None) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def met(self, column: str, texts: pa.Array, wanted: pa.DataType) -> None:
        """Note texts that have become values of the type."""
        if column not in self._told and may_lose(wanted) and (said := lost(texts, wanted)):
            self._told.add(column)
            self._tell(f"column `{column}` has {said}")

    def met_one(self, column: str, text: str, wanted: pa.DataType) -> None:
        """Note one text that has become a value of a type that may lose something."""
        if column not in self._told:
            self.met(column, pa.array([text]), wanted)


def may_lose(wanted: pa.DataType) -> bool:
    """Whether a text may say more than a value of the type."""
    return bool(
        types.is_timestamp(wanted)
        or types.is_time(wanted)
        or types.is_date(wanted)
        or types.is_decimal(wanted)
    )


def lost(texts: pa.Array, wanted: pa.DataType) -> str | None:
    """Return what values of the type do not keep of their texts; None for nothing."""
    if types.is_date(wanted):
        is_longer = (np.diff(texts_content(texts)[0]) > _DAY_CHARS).any()
        return OF_DAY if is_longer and _any(texts, _TIME_OF_DAY) else None
    if types.is_decimal(wanted):
        return DIGITS.format(wanted.scale) if _has_more(texts, wanted.scale) else None
    finer = _has_fraction(texts, _UNIT_DIGITS[wanted.unit])
    return FINER.format(_UNITS[wanted.unit]) if finer else None


def _has_more(texts: pa.Array, scale: int) -> bool:
    """Whether a number has digits beyond the scale; one with an exponent is computed."""
    if not (texts_content(texts)[1] | _SMALL == ord("e")).any():
        return _has_fraction(texts, scale)
    exponents = pc.match_substring(texts, "e", ignore_case=True)
    if _has_fraction(texts.filter(pc.invert(exponents)), scale):
        return True
    return any(_is_longer(text, scale) for text in texts.filter(exponents).to_pylist())


def _is_longer(text: str, scale: int) -> bool:
    try:
        digits = Decimal(text.strip()).normalize().as_tuple().exponent
    except InvalidOperation:
        return False
    return isinstance(digits, int) and -digits > scale


def _has_fraction(texts: pa.Array, digits: int) -> bool:
    """Whether a fraction has a digit other than 0 after the first ones. To compare lengths takes a
    fraction of the time of a pattern."""
    starts, content = texts_content(texts)
    points = np.flatnonzero((content == ord(".")) | (content == ord(",")))
    if not len(points):
        return False
    ends = starts[1:] - starts[0]
    ends = ends[np.searchsorted(ends, points, side="right")]
    behind = ends - points - 1 - (content[ends - 1] == ord("Z"))
    return bool((behind > digits).any()) and _any(texts, rf"[.,][0-9]{{{digits}}}[0-9]*[1-9]")


def _any(texts: pa.Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(texts, pattern)).as_py() is True
