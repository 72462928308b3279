"""Instants, by known answers and at their edges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known import name_of, vectors

from odf_protocol.instant import Instant, MalformedInstant


@pytest.mark.parametrize("vector", vectors("text-forms", "timestamp"), ids=name_of)
def test_text_becomes_fields_and_canonical_text(vector):
    instant = Instant.parse(vector["text"])
    assert list(instant.fields()) == vector["fields"]
    assert Instant.from_fields(*vector["fields"]) == instant
    assert str(instant) == vector["canonical"]


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-01t00:00:00z",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00+00:00",
        "2024-01-01T00:00:00.000000000Z",
        "2023-12-31T14:30:00-09:30",
    ],
)
def test_spellings_of_one_instant_are_equal(text):
    assert str(Instant.parse(text)) == "2024-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00Z",
        "2024-02-30T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00+0100",
        "2024-01-01T00:00:00.Z",
        " 2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00Z\n",
        "٢٠٢٤-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "20240-01-01T00:00:00Z",
    ],
)
def test_text_that_names_no_instant_is_refused(text):
    with pytest.raises(MalformedInstant):
        Instant.parse(text)


@pytest.mark.parametrize(
    "fields",
    [
        (0, 1, 0, 0),
        (10000, 1, 0, 0),
        (2023, 366, 0, 0),
        (2024, 0, 0, 0),
        (2024, 367, 0, 0),
        (2024, 1, 86400, 0),
        (2024, 1, 0, 10**9),
        (-5, 1, 0, 0),
    ],
)
def test_fields_out_of_range_are_refused(fields):
    with pytest.raises(MalformedInstant):
        Instant.from_fields(*fields)


@given(st.integers(Instant.parse("0001-01-01T00:00:00Z").ns, 253402300799999999999))
def test_fields_and_text_read_back(ns):
    instant = Instant(ns)
    assert Instant.from_fields(*instant.fields()) == instant
    assert Instant.parse(str(instant)) == instant


@given(st.datetimes(timezones=st.just(UTC)))
def test_datetimes_go_in_and_out(when):
    assert Instant.from_datetime(when).to_datetime() == when


def test_a_datetime_without_zone_is_refused():
    with pytest.raises(MalformedInstant):
        Instant.from_datetime(datetime(2024, 1, 1))


def test_milliseconds_round_down():
    assert Instant(-1).millis == -1
    assert Instant(1_999_999).floor_millis() == Instant.from_millis(1)
    later = Instant.from_datetime(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=1500))
    assert str(later.floor_millis()) == "2024-01-01T00:00:00.001Z"
