"""The picture of a dataset: rows and numbers over event time, frequent values, and places; and the
chart of the rows of a query.

The former is drawn from the facts of columns that a node keeps, whose rows are a sample of a large
dataset; the captions say so. These are pure functions; coordinates are in units of the view box.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .cells import MEASURES, NUMBERS, cell_text

WIDTH, HEIGHT = 320, 120
COLUMNS = 64
"""Columns of pixels along the time, each with its rows and its extremes."""
STEP = WIDTH // COLUMNS
LINES = 2
"""Most columns of numbers that are drawn over time."""
BARS, ANSWER_BARS = 6, 20
TIMES = frozenset({"Timestamp", "Date"})
POINTS = 400
MIN_SPAN = 0.02
"""Degrees that a map has at least, so that one place is no dot without surroundings."""
STRAY = 20
"""How many times as long as most rows take the time may be; beyond that, some rows are strays."""
LATITUDES = frozenset({"lat", "latitude", "geo_lat"})
LONGITUDES = frozenset({"lon", "lng", "long", "longitude", "geo_lon", "geo_lng"})
GRID = (90, 45, 30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Degrees between the lines of a graticule; the first that gives three lines is drawn."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A part of the picture. `bars` have label, number and width; the others have paths."""

    title: str
    caption: str
    kind: str
    path: str = ""
    grid: str = ""
    height: int = HEIGHT
    bars: tuple[tuple[str, float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SampledRows:
    """The sample: values by column, and the kind of type of each column."""

    values: Mapping[str, Sequence[Any]]
    kinds: Mapping[str, str]

    def numbers(self, name: str) -> list[float | None]:
        """Return the values of a column as finite numbers; None for others."""
        measure = MEASURES.get(self.kinds.get(name, ""))
        return [None if measure is None else _measured(measure, v) for v in self.values[name]]


def _measured(measure: Callable[[Any], float], value: Any) -> float | None:
    try:
        found = None if value is None else measure(value)
    except (ValueError, OverflowError, TypeError):
        return None  # slices of strangers, and years that no calendar of ours has
    return found if found is not None and abs(found) < math.inf else None


def picture(rows: SampledRows, event_time: str, system: frozenset[str]) -> tuple[Figure, ...]:
    """Return the figures; none if there is nothing to see. `system` are columns to leave out."""
    own = [name for name in rows.values if name not in system and name != event_time]
    places = _place_columns(rows, own)
    figures: list[Figure | None] = []
    if event_time in rows.values and (time := _time_of(rows.numbers(event_time))):
        figures.append(_counts(time))
        shown = telling(rows, [name for name in own if name not in places])
        figures += [_line(name, rows.numbers(name), time) for name in shown]
    if places:
        figures.append(_map(*map(rows.numbers, places)))
    figures.append(_categories(rows, own))
    return tuple(each for each in figures if each is not None)


def chart(rows: SampledRows) -> tuple[Figure, ...]:
    """Return what can be drawn of the rows of a query, by the types of its columns: places on a
    map, else numbers over the first column of times, else bars of a number by the first column."""
    names = [*rows.values]
    if places := _place_columns(rows, names):
        figures = [_map(*map(rows.numbers, places))]
    elif (clock := next((name for name in names if rows.kinds.get(name) in TIMES), None)) and (
        time := _time_of(rows.numbers(clock))
    ):
        figures = [_line(name, rows.numbers(name), time, clock) for name in telling(rows, names)]
    else:
        figures = [_bars(rows, names)]
    return tuple(each for each in figures if each is not None)


def _place_columns(rows: SampledRows, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of latitude and longitude; none if one of them is missing."""
    lat, lon = (
        next((name for name in names if name.lower() in words and _is_number(rows, name)), None)
        for words in (LATITUDES, LONGITUDES)
    )
    return () if lat is None or lon is None else (lat, lon)


@dataclass(frozen=True, slots=True)
class Time:
    """The times of rows, as columns of pixels; None for rows outside and without a time."""

    places: list[int | None]
    first: float
    last: float
    outside: int

    @property
    def words(self) -> str:
        told = f"{_moment(self.first)} to {_moment(self.last)}"
        return f"{told}; {self.outside} row(s) lie far outside" if self.outside else told


def _time_of(times: Sequence[float | None]) -> Time | None:
    there = sorted(each for each in times if each is not None)
    if not there or there[0] == there[-1]:
        return None
    first, last = there[0], there[-1]
    low, high = there[len(there) // 50], there[-1 - len(there) // 50]
    if len(there) >= STRAY and last - first > STRAY * (high - low) > 0:
        width = high - low
        near = [each for each in there if low - width <= each <= high + width]
        first, last = near[0], near[-1]
    span = last - first
    places = [
        min(COLUMNS - 1, int((each - first) * COLUMNS / span))
        if each is not None and first <= each <= last
        else None
        for each in times
    ]
    return Time(places, first, last, sum(not first <= each <= last for each in there))


def _moment(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(" ")[:16]
    return text.removesuffix(" 00:00")


def _counts(time: Time) -> Figure:
    counts = Counter(place for place in time.places if place is not None)
    most = max(counts.values())
    pieces = []
    for place, count in sorted(counts.items()):
        height = max(1, round(HEIGHT * count / most))
        pieces.append(f"M{place * STEP} {HEIGHT}v-{height}h{STEP - 1}v{height}z")
    caption = f"{time.words}; at most {most} in one bar"
    return Figure("Rows over event time", caption, "area", "".join(pieces))


def _is_number(rows: SampledRows, name: str) -> bool:
    return rows.kinds.get(name) in NUMBERS


def telling(rows: SampledRows, own: Sequence[str]) -> list[str]:
    """Return the columns of numbers that vary, those with a fraction first, and no counters."""
    ranked = []
    for at, name in enumerate(own):
        if not _is_number(rows, name):
            continue
        there = [each for each in rows.numbers(name) if each is not None]
        if len(set(there)) < 3 or 2 * len(there) < len(rows.values[name]):
            continue
        is_whole = all(each == int(each) for each in there)
        is_counter = is_whole and len(set(there)) == len(there) and there == sorted(there)
        ranked.append((is_counter, is_whole, at, name))
    return [name for *_, name in sorted(ranked)[:LINES]]


def _line(
    name: str, values: Sequence[float | None], time: Time, clock: str = "event time"
) -> Figure | None:
    """Draw least and greatest value of each column of pixels, joined by their middles."""
    columns: dict[int, list[float]] = defaultdict(list)
    for place, value in zip(time.places, values, strict=True):
        if place is not None and value is not None:
            columns[place].append(value)
    if not columns:
        return None
    low, high = min(map(min, columns.values())), max(map(max, columns.values()))
    span = high / 2 - low / 2  # the difference of two floats may exceed the largest float

    def y(value: float) -> int:
        return round(HEIGHT - HEIGHT * ((value / 2 - low / 2) / span)) if span else HEIGHT // 2

    middles, extremes = [], []
    for place, found in sorted(columns.items()):
        x, top, bottom = place * STEP + STEP // 2, y(max(found)), y(min(found))
        middles.append(f"{x} {(top + bottom) // 2}")
        if bottom > top:
            extremes.append(f"M{x} {top}V{bottom}")
    path = f"M{'L'.join(middles)}{''.join(extremes)}"
    caption = f"{low:.6g} to {high:.6g}; {time.words}"
    return Figure(f"{cell_text(name)} over {cell_text(clock)}", caption, "line", path)


def _map(latitudes: Sequence[float | None], longitudes: Sequence[float | None]) -> Figure | None:
    """Draw places as points over a graticule, each degree as wide as it is high in the middle."""
    pairs = [
        (lon, lat)
        for lat, lon in zip(latitudes, longitudes, strict=True)
        if lat is not None and lon is not None
    ]
    places = [(lon, lat) for lon, lat in pairs if abs(lat) <= 90 and abs(lon) <= 180]
    if not places:
        return None
    west, east = _wide(min(lon for lon, _ in places), max(lon for lon, _ in places), 180)
    south, north = _wide(min(lat for _, lat in places), max(lat for _, lat in places), 90)
    narrow = max(0.1, math.cos(math.radians((south + north) / 2)))
    scale = min(WIDTH / ((east - west) * narrow), 2 * HEIGHT / (north - south))
    width, height = scale * (east - west) * narrow, scale * (north - south)
    left = (WIDTH - width) / 2

    def at(lon: float, lat: float) -> tuple[int, int]:
        return round(left + (lon - west) * narrow * scale), round((north - lat) * scale)

    drawn = list(dict.fromkeys(at(*place) for place in places))[:POINTS]
    step = next((each for each in GRID if north - south >= 3 * each), GRID[-1])
    across = [at(west, each)[1] for each in _multiples(south, north, step)]
    along = [at(each, north)[0] for each in _multiples(west, east, step)]
    grid = "".join(f"M{left:.0f} {y}h{width:.0f}" for y in across)
    grid += "".join(f"M{x} 0v{height:.0f}" for x in along)
    caption = f"{west:.4g} to {east:.4g} degrees east, {south:.4g} to {north:.4g} north"
    caption += f"; a line each {step:g} degrees"
    if outside := len(pairs) - len(places):
        caption += f"; {outside} row(s) have coordinates that no place has"
    path = "".join(f"M{x} {y}h0" for x, y in drawn)
    return Figure("Places", caption, "map", path, grid, math.ceil(height))


def _wide(low: float, high: float, most: float) -> tuple[float, float]:
    """Return the range with a margin, within the whole earth."""
    margin = max(MIN_SPAN, high - low) / 20
    return max(-most, low - margin), min(most, high + margin)


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)][:100]


def category(rows: SampledRows, own: Sequence[str]) -> tuple[str, Counter[str | None]] | None:
    """Return the first column whose values repeat, and how often each does."""
    for name in own:
        if rows.kinds.get(name) in ("String", "Bool"):
            counts = Counter(cell_text(each) for each in rows.values[name] if each is not None)
            if 2 <= len(counts) <= counts.total() / 2:
                return name, counts
    return None


def _categories(rows: SampledRows, own: Sequence[str]) -> Figure | None:
    """Draw the frequent values of the first column whose values repeat."""
    if (found := category(rows, own)) is None:
        return None
    name, counts = found
    frequent = counts.most_common(BARS)
    most = frequent[0][1]
    bars = tuple((str(text), n, max(1, round(WIDTH * n / most))) for text, n in frequent)
    rest = counts.total() - sum(n for _, n in frequent)
    caption = f"{len(counts)} values" + (f"; {rest} rows have others" if rest else "")
    return Figure(f"Rows by {cell_text(name)}", caption, "bars", bars=bars)


def _bars(rows: SampledRows, names: Sequence[str]) -> Figure | None:
    """Draw the first number of the first rows, none of which is below 0, by the first column."""
    label = next(iter(names), None)
    number = next((name for name in names[1:] if _is_number(rows, name)), None)
    if label is None or number is None:
        return None
    pairs = zip(rows.values[label], rows.numbers(number), strict=True)
    there = [(str(cell_text(text)), value) for text, value in pairs if value is not None]
    shown = there[:ANSWER_BARS]
    most = max((value for _, value in shown), default=0.0)
    if len(shown) < 2 or most <= 0 or any(value < 0 for _, value in shown):
        return None
    bars = tuple((text, _short(n), round(WIDTH * (n / most))) for text, n in shown)
    caption = f"{len(shown)} of {len(there)} rows"
    return Figure(f"{cell_text(number)} by {cell_text(label)}", caption, "bars", bars=bars)


def _short(value: float) -> float:
    """Return the number with the digits that fit beside a bar."""
    short = float(f"{value:.6g}")
    return int(short) if short == int(short) else short
