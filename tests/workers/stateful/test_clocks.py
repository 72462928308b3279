"""What watermarks promise about columns made of event time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from odf_workers.engines.stateful.operators import (
    DAY,
    EPOCH,
    InputClock,
    LaterClock,
    Least,
    WindowStart,
    back,
    truncated,
)

A, B = InputClock("a"), InputClock("b")


def at(text: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)


def test_a_window_is_final_exactly_when_the_watermark_reaches_its_end() -> None:
    start = WindowStart(A, DAY, DAY)
    assert start.at({"a": at("2000-01-02") - 1}) == at("2000-01-01")
    assert start.at({"a": at("2000-01-02")}) == at("2000-01-02") > at("2000-01-01")


def test_of_sliding_windows_the_first_still_open_counts() -> None:
    start = WindowStart(A, DAY, DAY // 4)
    assert start.at({"a": at("2000-01-02")}) == at("2000-01-01 06:00")
    assert LaterClock(start, DAY).at({"a": at("2000-01-02")}) == at("2000-01-02 06:00")


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("second", "2024-05-16 13:14:15"),
        ("HOUR", "2024-05-16 13:00"),
        ("dd", "2024-05-16"),
        ("week", "2024-05-13"),
        ("month", "2024-05-01"),
        ("QUARTER", "2024-04-01"),
        ("year", "2024-01-01"),
    ],
)
def test_units_begin_where_spark_lets_them_begin(unit: str, expected: str) -> None:
    clock = truncated(A, unit)
    assert clock is not None
    assert clock.at({"a": at("2024-05-16 13:14:15.5")}) == at(expected)


def test_units_hold_before_1970() -> None:
    clock = truncated(A, "month")
    assert clock is not None
    assert clock.at({"a": at("1969-02-03")}) == at("1969-02-01")


@pytest.mark.parametrize(("unit", "days"), [("month", 31), ("quarter", 92), ("year", 366)])
def test_calendar_units_hold_beyond_the_years_of_instants(unit: str, days: int) -> None:
    end = {"a": at("9999-12-31 23:59:59")}
    later, earlier = truncated(LaterClock(A, DAY), unit), truncated(LaterClock(A, -DAY), unit)
    assert later is not None
    assert later.at(end) == at("9999-12-31") + DAY
    assert earlier is not None
    assert earlier.at({"a": at("0001-01-01")}) == at("0001-01-01") - days * DAY


def test_an_unknown_unit_is_no_clock() -> None:
    assert truncated(A, "fortnight") is None


def test_an_input_without_watermark_holds_all_back() -> None:
    assert Least((A, B)).at({"a": 5, "b": None}) is None
    assert Least((A, B)).at({"a": 5, "b": 3}) == 3
    assert back({"a": 5, "b": None}, 2) == {"a": 3, "b": None}
