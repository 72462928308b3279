"""Patterns of dates and times, as in Spark and Java: `MMM d yyyy`, `yyyy-MM-dd'T'HH:mm:ss`.

A pattern is checked once, when a source is defined; unknown letters are refused then. A number
with one letter matches any number of digits, with several letters exactly that many. Names of
months and days are English, in any case. Times without a zone are in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

from ..errors import BadInput

MAX_PATTERN_CHARS = 100
MAX_TEXT_CHARS = 200
"""Longer texts cannot be times."""
ISO = "rfc3339"
"""The specification's name for the default: texts are read as ISO 8601."""
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TOKEN = re.compile(r"''|'(?:[^']|'')*'|([A-Za-z])\1*|[\[\]]|[^A-Za-z'\[\]]+|'")
_FIXED = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)
_ZONE = r"[A-Za-z][A-Za-z0-9_/+-]*"


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A compiled pattern, which parses texts."""

    text: str
    regex: re.Pattern[str]

    def read(self, text: str, zone: str | None = None) -> datetime:
        """Return the time in UTC; `zone` is the zone of a text that names none. Raises
        `ValueError` if the text does not match the pattern."""
        found, local = self._read(text)
        return local.replace(tzinfo=UTC) - _offset(found, local, zone)

    def read_day(self, text: str) -> date:
        """Return the day that the text names, whatever its zone. Raises `ValueError` as `read`."""
        return self._read(text)[1].date()

    def _read(self, text: str) -> tuple[dict[str, str], datetime]:
        """Return the fields of a text, and its time as a clock shows it."""
        match = self.regex.fullmatch(text) if len(text) <= MAX_TEXT_CHARS else None
        if match is None:
            raise ValueError(f"not of the form {self.text}")
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        local = datetime(
            _year(found), _month(found), int(found.get("day", 1)), _hour(found),
            int(found.get("minute", 0)), int(found.get("second", 0)),
            int(found.get("fraction", "0")[:6].ljust(6, "0")),
        )  # fmt: skip
        if "weekday" in found and not _DAYS[local.weekday()].startswith(found["weekday"].lower()):
            raise ValueError("the day of the week is another one")
        return found, local


@lru_cache(64)
def pattern_of(text: str | None) -> TimePattern | None:
    """Return the pattern of a read step; None for the default. Raises `UnsupportedPattern`."""
    if text is None or text == ISO:
        return None
    if len(text) > MAX_PATTERN_CHARS:
        raise BadInput(
            "UnsupportedPattern",
            f"a pattern of times has at most {MAX_PATTERN_CHARS} characters",
            pattern=text[:100],
        )
    names: set[str] = set()
    pattern = "".join(_part(token[0], text, names) for token in _TOKEN.finditer(text))
    if not ({"year", "year2"} & names and {"month", "month_name"} & names and "day" in names):
        raise _unsupported(text, "it tells no day: letters for year, month and day are needed")
    if "hour12" in names and "half" not in names:
        raise _unsupported(text, "hours of half a day (h) need to be told which half (a)")
    try:
        return TimePattern(text, re.compile(pattern, re.ASCII | re.IGNORECASE))
    except re.error:
        raise _unsupported(text, "a letter stands twice, or a bracket alone") from None


def _part(part: str, pattern: str, names: set[str]) -> str:
    """Return the regular expression for a part of a pattern."""
    if part == "[":
        return "(?:"
    if part == "]":
        return ")?"
    if part == "''":
        return "'"
    if part.startswith("'"):
        if len(part) < 2:
            raise _unsupported(pattern, "a quote is not closed")
        return re.escape(part[1:-1].replace("''", "'"))
    if not part[0].isalpha():
        return re.escape(part)
    letter, count = part[0], len(part)
    for letters, counts, name, expression in _LETTERS:
        if letter in letters and count in counts:
            names.add(name)
            return f"(?P<{name}>{expression.format(n=count)})"
    raise _unsupported(pattern, f"`{part}` is not known")


def _unsupported(pattern: str, reason: str) -> BadInput:
    return BadInput(
        "UnsupportedPattern",
        f"the pattern {pattern[:MAX_PATTERN_CHARS]!r} of times is not supported: {reason}. Known "
        "are y M d H h a m s S E X x Z VV, quoted text and [optional parts]",
        pattern=pattern[:MAX_PATTERN_CHARS],
    )


def _names(names: tuple[str, ...], *, short: bool) -> str:
    return "|".join(name[:3] if short else name for name in names)


_LETTERS: tuple[tuple[str, tuple[int, ...], str, str], ...] = (
    ("yu", (1, 4), "year", r"\d{{4}}"),
    ("yu", (2,), "year2", r"\d\d"),
    ("ML", (1,), "month", r"\d{{1,2}}"),
    ("ML", (2,), "month", r"\d\d"),
    ("ML", (3,), "month_name", _names(_MONTHS, short=True)),
    ("ML", (4,), "month_name", _names(_MONTHS, short=False)),
    ("d", (1,), "day", r"\d{{1,2}}"),
    ("d", (2,), "day", r"\d\d"),
    ("H", (1,), "hour", r"\d{{1,2}}"),
    ("H", (2,), "hour", r"\d\d"),
    ("h", (1,), "hour12", r"\d{{1,2}}"),
    ("h", (2,), "hour12", r"\d\d"),
    ("a", (1,), "half", "[ap]m"),
    ("m", (1,), "minute", r"\d{{1,2}}"),
    ("m", (2,), "minute", r"\d\d"),
    ("s", (1,), "second", r"\d{{1,2}}"),
    ("s", (2,), "second", r"\d\d"),
    ("S", tuple(range(1, 10)), "fraction", r"\d{{{n}}}"),
    ("E", (1, 2, 3), "weekday", _names(_DAYS, short=True)),
    ("E", (4,), "weekday", _names(_DAYS, short=False)),
    ("X", (1, 2, 3), "offset", r"Z|[+-]\d\d(?::?\d\d)?"),
    ("x", (1, 2, 3), "offset", r"[+-]\d\d(?::?\d\d)?"),
    ("Z", (1, 2, 3, 5), "offset", r"Z|[+-]\d\d:?\d\d"),
    ("V", (2,), "zone", _ZONE),
)
"""Letters, their allowed repetitions, the name of the field, and its regular expression."""


def _year(found: dict[str, str]) -> int:
    return int(found["year"]) if "year" in found else 2000 + int(found.get("year2", 0))


def _month(found: dict[str, str]) -> int:
    name = found.get("month_name")
    if name is None:
        return int(found.get("month", 1))
    return next(at for at, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()))


def _hour(found: dict[str, str]) -> int:
    if "hour12" not in found:
        return int(found.get("hour", 0))
    hour = int(found["hour12"])
    if not 1 <= hour <= 12:
        raise ValueError("no hour of half a day")
    return hour % 12 + (12 if found["half"].lower() == "pm" else 0)


def _offset(found: dict[str, str], local: datetime, zone: str | None) -> timedelta:
    return offset_at(found.get("zone") or found.get("offset") or zone or "Z", local)


def offset_at(zone: str, local: datetime) -> timedelta:
    """Return the offset from UTC of `Z`, an offset like `+01:00`, or a zone at that local time.
    Raises `ValueError` as `zone_offset`."""
    if zone in ("Z", "z"):
        return timedelta()
    match = _FIXED.fullmatch(zone)
    if match is None:
        return zone_offset(zone, local)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    timezone(offset)  # raises for a whole day or more
    return -offset if match[1] == "-" else offset


NO_ZONE = "no zone is called"
OF_WINTER = "is the name of winter time, and this is a time in summer"
NOT_ONCE = "showed this time twice, or never"
UNCLEAR_ZONE = (NO_ZONE, OF_WINTER, NOT_ONCE)
"""What errors say of a time whose zone does not tell one moment."""
_OF_WINTER = frozenset({"CET", "EET", "MET", "WET"})
"""Names of winter time that the zone database also has as zones, whose clocks show another time in
summer: some write them for the offset, others for the zone, so in summer nobody can tell."""


def zone_offset(zone: str, local: datetime) -> timedelta:
    """Return a zone's offset from UTC at that local time. Raises `ValueError` for an unknown zone,
    if the local time does not occur exactly once, or if the name may mean two offsets."""
    try:
        info = ZoneInfo(zone)
    except (KeyError, OSError):
        raise ValueError(f"{NO_ZONE} {zone[:40]!r}") from None
    if zone in _OF_WINTER and local.replace(tzinfo=info).dst():
        raise ValueError(f"{zone} {OF_WINTER}")
    first, second = (local.replace(tzinfo=info, fold=fold).utcoffset() for fold in (0, 1))
    if first is None or first != second:
        raise ValueError(f"clocks of {zone} {NOT_ONCE}")
    return first
