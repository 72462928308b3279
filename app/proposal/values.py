"""The type of a column's texts: numbers, dates or times, judged by all its texts in the sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from odf_node.protocol.errors import BadInput
from odf_node.protocol.time_patterns import TimePattern, pattern_of

INT64 = range(-(2**63), 2**63)
NULL_WORDS = ("NA", "N/A", "n/a", "null", "NULL", "None", "-", "?")
"""Words that are often used for a missing value. One of them may be the `nullValue` of a source."""
_INT = re.compile(r" *-?\d{1,400} *", re.ASCII)
_ZEROS = re.compile(r" *-?0\d+ *", re.ASCII)
_FLOAT = re.compile(r" *-?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)? *|-?inf|nan|NaN", re.ASCII)
_COMMA = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+|-?\d+,\d+", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?( ?(Z|[+-]\d\d(:?\d\d)?))?", re.ASCII
)
_DAYS = (
    *("d.M.yyyy", "d.M.yy", "d/M/yyyy", "M/d/yyyy", "d/M/yy", "M/d/yy", "d-M-yyyy", "M-d-yyyy"),
    *("yyyy/M/d", "yyyy.M.d", "yyyy-M-d", "d MMM yyyy", "d-MMM-yyyy", "d MMMM yyyy"),
    *("MMM d, yyyy", "MMMM d, yyyy", "MMM d yyyy"),
)
_CLOCKS = (" H:mm:ss", " H:mm", " H:mm:ss.SSS", "'T'H:mm", " h:mm a", " h:mm:ss a")
DATE_PATTERNS = _DAYS
TIME_PATTERNS = tuple(day + clock for day in _DAYS for clock in _CLOCKS)
_EPOCH_NAME = re.compile(r"(?i)(^|_)(ts|time|timestamp|epoch|unix)(_?(s|ms))?$|_at$")
_SECONDS = range(631_152_000, 4_102_444_800)
"""Seconds since 1970 of the years 1990 to 2099."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The type of a column; the patterns that fit all its texts if they are not ISO 8601; and a
    remark."""

    type: str
    patterns: tuple[str, ...] = ()
    note: str = ""


def guess(name: str, texts: Sequence[str]) -> Guess:
    """Return the narrowest type that fits all of these texts; the list may be empty."""
    if not texts:
        return Guess("String", note="no value in the sample, so text")
    distinct = list(dict.fromkeys(text.strip() for text in texts))
    if all(text.lower() in ("true", "false") for text in distinct):
        return Guess("Bool")
    if all(map(_INT.fullmatch, distinct)):
        return _integer(name, distinct)
    if all(map(_FLOAT.fullmatch, distinct)):
        return Guess("Float64")
    if all(map(_COMMA.fullmatch, distinct)):
        return Guess("String", note="numbers with a decimal comma, which no reader takes, so text")
    if all(map(_DATE.fullmatch, distinct)):
        return _if_real("Date", "yyyy-MM-dd", distinct)
    if all(map(_TIME.fullmatch, distinct)):
        return _if_real("Timestamp", "yyyy-MM-dd", [text[:10] for text in distinct])
    for kind, patterns in (("Date", DATE_PATTERNS), ("Timestamp", TIME_PATTERNS)):
        if fitting := _fitting(patterns, distinct):
            return Guess(kind, fitting)
    return Guess("String")


def null_word(texts: Sequence[str]) -> str | None:
    """Return the word that marks a missing value in a column that otherwise is not text."""
    for word in NULL_WORDS:
        if word in texts:
            others = [text for text in texts if text != word]
            if others and guess("", others).type != "String":
                return word
    return None


def is_day_first(pattern: str) -> bool | None:
    """Whether the day is before the month in a pattern whose figures are ambiguous; None for
    others."""
    if "MMM" in pattern or pattern.startswith(("y", "d.")):
        return None
    return pattern.startswith("d")


def _integer(name: str, texts: Sequence[str]) -> Guess:
    if any(map(_ZEROS.fullmatch, texts)):
        return Guess("String", note="figures with leading zeros, so text")
    numbers = [int(text) for text in texts]
    if any(number not in INT64 for number in numbers):
        return Guess("String", note="numbers of more than 64 bits, so text")
    if _EPOCH_NAME.search(name):
        for factor, unit in ((1, "seconds"), (1000, "milliseconds")):
            if all(number // factor in _SECONDS for number in numbers):
                note = f"looks like {unit} since 1970; kept as a number"
                return Guess("Int64", note=note)
    return Guess("Int64")


def _if_real(kind: str, pattern: str, days: Sequence[str]) -> Guess:
    if _reads(_pattern(pattern), days):
        return Guess(kind)
    return Guess("String", note="looks like dates, but names days that are none, so text")


def _fitting(patterns: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that read all texts."""
    first = texts[:1]
    likely = [one for one in patterns if _reads(_pattern(one), first)]
    return tuple(one for one in likely if _reads(_pattern(one), texts))


def _reads(pattern: TimePattern, texts: Sequence[str]) -> bool:
    try:
        for text in texts:
            pattern.read(text)
    except (ValueError, OverflowError):
        return False
    return True


def _pattern(text: str) -> TimePattern:
    found = pattern_of(text)
    if found is None:
        raise BadInput(f"{text} is no pattern")
    return found
