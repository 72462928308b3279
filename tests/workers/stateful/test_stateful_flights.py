"""Flights: weather of the hour, delay per carrier and day, the busiest routes, and a correction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.workers.stateful.playing import Play, t

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLIGHTS = {
    "carrier": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "delay": pa.int32(),
}
WEATHER = {"origin": pa.string(), "wind": pa.float64()}
STEPS = [
    (
        "in_weather",
        (
            "select f.event_time, f.carrier, f.origin, f.dest, f.delay, w.wind from flights f "
            "left join weather w on w.origin = f.origin "
            "and w.event_time = date_trunc('hour', f.event_time)"
        ),
    ),
    (
        "daily",
        (
            "select date_trunc('day', event_time) as event_time, carrier as name, "
            "round(avg(delay), 2) as value, max(wind) as wind from in_weather "
            "group by date_trunc('day', event_time), carrier"
        ),
    ),
    (
        "routes",
        (
            "select date_trunc('day', event_time) as event_time, concat(origin, '-', dest) as "
            "route, count(*) as flights from flights group by 1, 2"
        ),
    ),
]
BUSIEST = (
    "select event_time, concat(place, ' ', route) as name, cast(flights as double) as value, "
    "cast(null as double) as wind from (select *, row_number() over "
    "(partition by event_time order by flights desc, route) as place from routes) where place <= 2"
)
QUERY = [*STEPS, (None, f"select * from daily union all {BUSIEST}")]
A, R, C, C_TO = 0, 1, 2, 3


def test_a_late_correction_of_one_flight_reaches_every_result(
    spark: SparkSession, tmp_path: Path
) -> None:
    play = Play(spark, tmp_path, QUERY, {"flights": FLIGHTS, "weather": WEATHER})
    flights = [
        (A, t("01-01T05:15"), "UA", "EWR", "IAH", 2),
        (A, t("01-01T05:40"), "AA", "JFK", "MIA", 4),
        (A, t("01-01T06:10"), "UA", "EWR", "IAH", 10),
        (A, t("01-01T07:00"), "AA", "JFK", "MIA", 0),
        (A, t("01-01T07:20"), "UA", "LGA", "ORD", None),
        (A, t("01-02T06:00"), "UA", "EWR", "IAH", 1),
    ]
    weather = [
        (A, t("01-01T05"), "EWR", 10.4),
        (A, t("01-01T05"), "JFK", 12.5),
        (A, t("01-01T06"), "EWR", 13.8),
    ]
    told = play.step({"flights": flights, "weather": weather}, {"flights": t("01-02T06")})
    # Weather may still come for the first day: only what needs none is told.
    assert told == [
        (A, t("01-01"), "1 EWR-IAH", 2.0, None),
        (A, t("01-01"), "2 JFK-MIA", 2.0, None),
    ]
    told = play.step({}, {"weather": t("01-02T01")})
    assert told == [
        (A, t("01-01"), "AA", 2.0, 12.5),
        (A, t("01-01"), "UA", 6.0, 13.8),
    ]
    # One flight of the first day went elsewhere, later than was said.
    corrected = [
        (C, t("01-01T06:10"), "UA", "EWR", "IAH", 10),
        (C_TO, t("01-01T06:10"), "UA", "EWR", "BOS", 30),
    ]
    told = play.step({"flights": corrected})
    assert told == [
        (C, t("01-01"), "1 EWR-IAH", 2.0, None),
        (C_TO, t("01-01"), "1 JFK-MIA", 2.0, None),
        (C, t("01-01"), "2 JFK-MIA", 2.0, None),
        (C_TO, t("01-01"), "2 EWR-BOS", 1.0, None),
        (C, t("01-01"), "UA", 6.0, 13.8),
        (C_TO, t("01-01"), "UA", 16.0, 13.8),
    ]
