"""Event times from file names, for sources that declare this.

Patterns are written by owners of datasets, so the engine that matches them takes time proportional
to the text (RE2, a dialect that the reference also has, without look-around).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import EventTimeSourceFromPath
from odf_protocol.source_rules import MAX_PATTERN_CHARS
from odf_protocol.time_patterns import pattern_of

from .values import EventTimeNotFound

DEFAULT_FORMAT = "%Y-%m-%d"
MAX_FORMAT_CHARS = 100
_COMPOSED = {
    "%F": "%Y-%m-%d",
    "%T": "%H:%M:%S",
    "%R": "%H:%M",
    "%D": "%m/%d/%y",
    "%e": "%d",
    "%h": "%b",
    "%:z": "%z",
    "%#z": "%z",
}
"""Letters of strftime that Python cannot parse, replaced by letters that it can."""
_LETTER = re.compile(r"%(?:[:#]z|.)", re.DOTALL)


def from_path(rule: EventTimeSourceFromPath, name: str) -> Instant:
    """Return the time in group 1 of the pattern, at its first match in the name.

    Raises:
        EventTimeNotFound: no match, no group, or text that is no such date.
    """
    text = _group(rule.pattern, name)
    wanted = rule.timestamp_format or DEFAULT_FORMAT
    if len(wanted) > MAX_FORMAT_CHARS:
        raise EventTimeNotFound(f"a timestamp format has at most {MAX_FORMAT_CHARS} characters")
    if "%" not in wanted:
        return _of_pattern(wanted, text, name)
    known = _LETTER.sub(lambda match: _COMPOSED.get(match[0], match[0]), wanted)
    try:
        return _instant(datetime.strptime(text, known))
    except (ValueError, re.error, OverflowError) as bad:
        raise EventTimeNotFound(
            f"{text!r} in the file name {name!r} is no time of the form {wanted!r}",
            name=name,
            value=text,
            timestamp_format=wanted,
        ) from bad


def _of_pattern(wanted: str, text: str, name: str) -> Instant:
    """Parse a time in a pattern of Spark and Java."""
    try:
        pattern = pattern_of(wanted)
        when = datetime.fromisoformat(text) if pattern is None else pattern.read(text)
    except (ValueError, OverflowError) as bad:
        raise EventTimeNotFound(
            f"{text!r} in the file name {name!r} is no time of the form {wanted!r}",
            name=name,
            value=text,
            timestamp_format=wanted,
        ) from bad
    return Instant.from_datetime(when if when.tzinfo else when.replace(tzinfo=UTC))


def _instant(when: datetime) -> Instant:
    """Return the instant of a time with a zone; without a zone, the midnight that begins the day in
    UTC."""
    if when.tzinfo is None:
        when = when.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    return Instant.from_datetime(when)


def _group(pattern: str, name: str) -> str:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise EventTimeNotFound(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
    names = pa.array([name])
    try:
        matches = pc.match_substring_regex(names, pattern)[0].as_py()
        # Replace the whole name by the group; the lazy start keeps the first match.
        around = rf"^(?s:.*?)(?:{pattern})(?s:.*)$"
        found = pc.replace_substring_regex(names, around, r"\1", max_replacements=1)[0].as_py()
    except pa.ArrowInvalid as bad:
        raise EventTimeNotFound(
            f"the pattern {pattern!r} is no regular expression with one group ({bad})",
            pattern=pattern,
        ) from None
    if not matches:
        raise EventTimeNotFound(
            f"the file name {name!r} does not match {pattern!r}", name=name, pattern=pattern
        )
    return str(found)
