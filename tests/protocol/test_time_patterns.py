"""Patterns of dates and times as Spark and Java write them."""

from __future__ import annotations

import pytest
from refusals import refusing

from odf_protocol.sources.time_patterns import pattern_of

READ = [
    ("MMM d yyyy", "Jan 1 2000", "2000-01-01T00:00:00"),
    ("MMMM dd, yyyy", "february 09, 2001", "2001-02-09T00:00:00"),
    ("yyyy-MM-dd'T'HH:mm:ss", "2020-01-02T03:04:05", "2020-01-02T03:04:05"),
    ("yyyy-MM-dd HH:mm:ss.SSS", "2020-01-02 03:04:05.678", "2020-01-02T03:04:05.678000"),
    ("yyyy-MM-dd[ HH:mm]", "2020-01-02", "2020-01-02T00:00:00"),
    ("yyyy-MM-dd[ HH:mm]", "2020-01-02 10:30", "2020-01-02T10:30:00"),
    ("M/d/yy h:mm a", "1/2/20 12:30 AM", "2020-01-02T00:30:00"),
    ("EEE, d MMM yyyy HH:mm:ss Z", "Thu, 2 Jan 2020 03:04:05 +0100", "2020-01-02T02:04:05"),
    ("uuuuMMdd", "20200102", "2020-01-02T00:00:00"),
    ("yyyy-MM-dd'T'HH:mm:ssXXX", "2020-01-02T03:04:05+05:30", "2020-01-01T21:34:05"),
    ("yyyy-MM-dd HH:mm VV", "2020-07-02 12:00 Europe/Berlin", "2020-07-02T10:00:00"),
    ("d.M.yyyy 'um' H 'o''clock'", "3.4.2020 um 7 o'clock", "2020-04-03T07:00:00"),
]
WRONG = [
    ("MMM d yyyy", "2000-01-01"),
    ("yyyy-MM-dd", "2020-02-30"),
    ("yyyy-MM-dd", "2020-1-2"),
    ("EEE d MMM yyyy", "Fri 2 Jan 2020"),
    ("M/d/yy h:mm a", "1/2/20 13:30 AM"),
    ("yyyy-MM-dd HH:mm VV", "2020-03-29 02:30 Europe/Berlin"),
    ("yyyy-MM-dd", "２０２０-01-01"),
    ("yyyy-MM-dd", "2020-01-01 " + "0" * 1000),
]
REFUSED = [
    "%Y-%m-%d",
    "yyyy-MM",
    "HH:mm",
    "yyyy-MM-dd hh:mm",
    "yyyy-MM-dd Q",
    "yyyy-MM-dd 'T",
    "yyyy-MM-dd yyyy",
    "yyyy-MM-dd]",
    "yyyy-DDD",
    "y" * 101,
    "",
    "iso8601",
]


@pytest.mark.parametrize(("pattern", "text", "moment"), READ)
def test_a_text_of_the_pattern_is_a_moment(pattern: str, text: str, moment: str) -> None:
    found = pattern_of(pattern)
    assert found is not None
    assert found.read(text).isoformat() == f"{moment}+00:00"


@pytest.mark.parametrize(("pattern", "text"), WRONG)
def test_any_other_text_is_refused(pattern: str, text: str) -> None:
    found = pattern_of(pattern)
    assert found is not None
    with pytest.raises(ValueError):
        found.read(text)


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_mean_nothing_here_are_refused_before_any_text(pattern: str) -> None:
    with refusing("UnsupportedPattern"):
        pattern_of(pattern)


def test_the_default_is_no_pattern() -> None:
    assert pattern_of(None) is None
    assert pattern_of("rfc3339") is None
