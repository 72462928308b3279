"""The picture of a dataset: what is drawn of its rows, and of rows that are hard to draw."""

from __future__ import annotations

import gzip
import math
import re
from typing import Any

import pyarrow as pa
import pytest
from page_sets import EVIL, hostile, of_table, stations, wide
from service import seeded, serving, ten_rows

from odf_node.service.pages.frame.pictures import (
    BARS,
    HEIGHT,
    WIDTH,
    Figure,
    SampledRows,
    picture,
)

HTML = {"accept": "text/html"}
MOST_BYTES = 60_000
KINDS = {"t": "Timestamp", "v": "Float64", "n": "Int64", "c": "String", "b": "Bool"}
PLACES = {"lat": "Float64", "lon": "Float64"}


def drawn(**values: list[Any]) -> dict[str, Figure]:
    rows = SampledRows(values, {**KINDS, **PLACES})
    return {each.title: each for each in picture(rows, "t", frozenset({"offset"}))}


def hours(count: int) -> list[str]:
    return [f"2050-01-{1 + n // 24:02}T{n % 24:02}:00:00Z" for n in range(count)]


def numbers(figure: Figure) -> list[float]:
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", figure.path + figure.grid)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("drawn")) as service:
        for name, chain in (
            ("stations", stations()),
            ("hostile", hostile()),
            ("wide", wide()),
            ("empty", seeded()),
            ("still", ten_rows()),
        ):
            service.keep(chain, f"kamu/{name}")
        cells = {
            EVIL: [EVIL, EVIL, "b", "b"],
            "latitude": pa.array([60.1, 60.2, None, 91.0]),
            "Longitude": pa.array([24.9, 25.0, 25.1, 25.2]),
        }
        service.keep(of_table(cells), "kamu/places")
        yield service


def test_days_are_drawn_at_their_days() -> None:
    days = ["2024-01-05", "2024-01-06", "2024-01-09"]
    (figure,) = picture(SampledRows({"t": days}, {"t": "Date"}), "t", frozenset())
    assert "2024-01-05 to 2024-01-09" in figure.caption


def shown(node: Any, name: str) -> str:
    with node.http() as http:
        answer = http.get(f"/{name}", headers=HTML)
    assert answer.status_code == 200
    assert "style=" not in answer.text
    return answer.text


def test_a_dataset_is_seen_before_it_is_read(node):
    text = shown(node, "stations")
    glance, rows = text.index("At a glance"), text.index("Newest rows")
    assert glance < rows
    part = text[glance:rows]
    for title in ("Rows over event time", "temp over event time", "Rows by station"):
        assert title in part
    assert "Drawn from all 300 rows" in part
    assert "2050-01-01" in part


@pytest.mark.parametrize("name", ["empty", "still"])
def test_what_has_nothing_to_be_seen_has_no_picture(node, name):
    assert "At a glance" not in shown(node, name)


def test_places_are_points_and_impossible_ones_are_counted(node):
    text = shown(node, "places")
    assert "1 row(s) have coordinates that no place has" in text
    assert 'class="map"' in text
    assert EVIL not in text
    assert "Rows by &lt;script&gt;" in text


@pytest.mark.parametrize("name", ["stations", "hostile", "wide", "places"])
def test_a_page_with_its_picture_is_light(node, name):
    assert len(gzip.compress(shown(node, name).encode())) < MOST_BYTES


def test_a_picture_is_drawn_once_for_all_visitors(node, monkeypatch):
    shown(node, "stations")
    from odf_node.service.pages.frame import pictures

    monkeypatch.setattr(pictures, "picture", None)
    assert "temp over event time" in shown(node, "stations")


def test_extremes_are_in_the_line_wherever_they_lie():
    values = [1.0] * 300
    values[17], values[213] = -500.0, 700.0
    line = drawn(t=hours(300), v=values, n=[1, 2, 3] * 100)["v over event time"]
    assert line.caption.startswith("-500 to 700; 2050-01-01 to 2050-01-13")
    assert f"V{HEIGHT}" in line.path
    assert re.search(r"M\d+ 0V", line.path)


def test_values_that_are_none_are_left_out():
    values = [math.nan, math.inf, -math.inf, None, "NaN", "odd", *[float(n) for n in range(42)]]
    line = drawn(t=hours(48), v=values)["v over event time"]
    assert line.caption.startswith("0 to 41;")
    assert all(map(math.isfinite, numbers(line)))


def test_the_greatest_floats_do_not_overflow():
    line = drawn(t=hours(48), v=[1.7e308, -1.7e308, 0.0] * 16)["v over event time"]
    assert all(0 <= number <= max(HEIGHT, WIDTH) for number in numbers(line))


@pytest.mark.parametrize(
    "stray", ["9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"]
)
def test_a_time_that_jumps_lies_outside_and_is_counted(stray):
    figure = drawn(t=[*hours(99), stray])["Rows over event time"]
    assert re.search(r"; 1 row\(s\) lie far outside", figure.caption)
    assert "2050-01-0" in figure.caption
    assert len(figure.path) > 500


@pytest.mark.parametrize(
    "values",
    [
        {"t": [None] * 9, "v": [1.0, 2.0, 3.0] * 3},
        {"t": ["10000-01-01T00:00:00Z"] * 9},
        {"t": hours(1) * 9, "v": [1.0, 2.0, 3.0] * 3},
        {"c": ["same"] * 9, "v": [None] * 9},
        {"c": [f"c{n}" for n in range(500)]},
        {"lat": [None, 91.0], "lon": [181.0, 0.0]},
        {},
    ],
)
def test_what_cannot_be_drawn_is_left_out(values):
    assert drawn(**values) == {}


def test_a_column_of_one_value_and_a_counter_tell_less_than_others():
    found = drawn(
        t=hours(48),
        n=list(range(48)),
        v=[4.5] * 48,
        c=["x", "y"] * 24,
        lat=[60.0 + n % 5 for n in range(48)],
    )
    assert [*found] == [
        "Rows over event time",
        "lat over event time",
        "n over event time",
        "Rows by c",
    ]


def test_frequent_values_are_bars_and_the_rest_is_counted():
    figure = drawn(c=[f"c{n * n % 97}" for n in range(400)])["Rows by c"]
    assert len(figure.bars) == BARS
    assert figure.bars[0][2] == WIDTH
    rest = 400 - sum(count for _, count, _ in figure.bars)
    assert figure.caption == f"49 values; {rest} rows have others"


@pytest.mark.parametrize(
    "places",
    [
        [(60.1, 24.9)] * 3,
        [(90.0, 180.0), (-90.0, -180.0)],
        [(90.0, 0.0), (89.999, 180.0)],
        [(-17.0, 179.9), (-17.1, -179.9)],
        [(n / 100, n / 50) for n in range(1000)],
    ],
)
def test_places_lie_within_the_map(places):
    figure = drawn(lat=[lat for lat, _ in places], lon=[lon for _, lon in places])["Places"]
    assert figure.height <= 2 * HEIGHT
    for x, y in re.findall(r"M(-?\d+) (-?\d+)", figure.path + figure.grid):
        assert 0 <= int(x) <= WIDTH
        assert 0 <= int(y) <= figure.height
    assert len(figure.path) < 8_000
