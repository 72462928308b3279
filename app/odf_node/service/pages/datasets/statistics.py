"""Statistics of a column in a sample of rows: nulls, least and greatest value, distribution.

These are pure functions of JSON values, as `odf_storage/datasets/read/records.py` writes them.

Coordinates of drawings for SVG templates: bars of a column, and the lineage graph.

Content of the page of all columns of a dataset.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio import from_thread

from odf_protocol.columns.column_names import UNSAID, ColumnTexts, texts_in
from odf_protocol.errors import NodeError

from ...readers.tasks import Profiled
from ..frame.cells import (
    MEASURES,
    cell_text,
    column_lines,
    fields_of,
)
from ..frame.views import sample_size
from .blocks import Visit

BARS = 12
MAX_SPAN = 1e300
COUNTED = ("Bool", "String")
"""Kinds whose frequent values are counted."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Statistics of a column. `bars` are counts: of values from `least` to `greatest` in steps of
    equal width, or of the most frequent values, which `frequent` lists."""

    nulls: int
    distinct: int | None = None
    least: str | None = None
    greatest: str | None = None
    bars: tuple[int, ...] = ()
    frequent: tuple[str, ...] = ()


def facts_of(
    kind: dict[str, Any], values: Sequence[Any], ends: Sequence[Any] | None = None
) -> ColumnFacts:
    """Return the statistics of a column from a sample of its values. `ends` are the least and the
    greatest of all its values, if they are known. Nested and binary columns have only the count of
    nulls."""
    while kind["kind"] == "Option":
        kind = kind["inner"]
    there = [value for value in values if value is not None]
    nulls = len(values) - len(there)
    told = _ends_told(ColumnFacts(nulls), ends)
    if not there or (kind["kind"] not in MEASURES and kind["kind"] not in COUNTED):
        return told
    measure = MEASURES.get(kind["kind"])
    measured = _measured(measure, there)
    if measured is None:
        # slices by strangers may have another type than the schema says
        is_plain = len({type(value) for value in there} - {str, bool}) == 0
        return _ends_told(_counted(nulls, there), ends) if is_plain else told
    order = sorted(range(len(there)), key=measured.__getitem__)
    found = ColumnFacts(
        nulls,
        distinct=len(set(there)),
        least=cell_text(there[order[0]]),
        greatest=cell_text(there[order[-1]]),
        bars=_spread(measured, _measured(measure, ends) if ends else None),
    )
    return _ends_told(found, ends)


def _ends_told(facts: ColumnFacts, ends: Sequence[Any] | None) -> ColumnFacts:
    if ends is None:
        return facts
    least, greatest = map(cell_text, ends)
    return replace(facts, least=least, greatest=greatest)


def _measured(measure: Callable[[Any], float] | None, values: Sequence[Any]) -> list[float] | None:
    """Return the values as numbers; None if one cannot be converted, such as a year 10000."""
    if measure is None:
        return None
    try:
        measured = [measure(value) for value in values]
    except (ValueError, OverflowError, TypeError):
        return None
    return measured if all(map(math.isfinite, measured)) else None


def _spread(measured: Sequence[float], ends: Sequence[float] | None) -> tuple[int, ...]:
    low, high = min(*measured, *(ends or measured)), max(*measured, *(ends or measured))
    if low == high:
        return ()
    # the difference of two floats may exceed the largest float
    scale = 1.0 if high - low < MAX_SPAN else 1 / MAX_SPAN
    span = high * scale - low * scale
    places = (int((value * scale - low * scale) * BARS / span) for value in measured)
    counts = Counter(min(BARS - 1, place) for place in places)
    return tuple(counts[bar] for bar in range(BARS))


def _counted(nulls: int, values: Sequence[Any]) -> ColumnFacts:
    counts = Counter(values)
    most = counts.most_common(BARS) if len(counts) < len(values) else []
    return ColumnFacts(
        nulls,
        distinct=len(counts),
        least=cell_text(min(values, key=str)),
        greatest=cell_text(max(values, key=str)),
        bars=tuple(count for _, count in most),
        frequent=tuple(str(cell_text(value)) for value, _ in most),
    )


BARS_WIDTH, BARS_HEIGHT = 96, 20
BOX_WIDTH, BOX_HEIGHT = 176, 34
GAP_X, GAP_Y = 56, 12
MAX_BOXES = 24
"""Limit of boxes in a drawing; the page lists the other datasets."""
MAX_BOX_CHARS = 24


def bars_path(counts: Sequence[int]) -> str:
    """Return the `d` of an SVG path of bars in a box of `BARS_WIDTH` by `BARS_HEIGHT`. The highest
    bar is as high as the box; any count above 0 is visible."""
    most, width = max(counts), BARS_WIDTH // len(counts)
    pieces = []
    for place, count in enumerate(counts):
        height = max(1, round(BARS_HEIGHT * count / most)) if count else 0
        if height:
            pieces.append(f"M{place * width} {BARS_HEIGHT}v-{height}h{width - 1}v{height}z")
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Box:
    """A dataset in a drawing: its corner, and its name, cut to the width of the box."""

    x: int
    y: int
    name: str | None
    is_center: bool

    @property
    def label(self) -> str:
        name = self.name or "not visible here"
        return name if len(name) <= MAX_BOX_CHARS else f"…{name[1 - MAX_BOX_CHARS :]}"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, and the `d` of a path of arrows between them. Sizes are in units of the view box."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: str
    left_out: int
    """Number of datasets that the drawing leaves out."""


def lineage_drawing(
    center: str, names: dict[str, str | None], edges: Sequence[tuple[str, str]]
) -> Drawing:
    """Draw a graph from left to right, inputs before users; `names` by id, None for hidden ones.

    If there are too many datasets, the nearest ones are drawn.
    """
    columns = _columns(center, edges)
    near = sorted((one for one in columns if one in names), key=lambda one: abs(columns[one]))
    drawn = near[:MAX_BOXES]
    rows: dict[int, list[str]] = defaultdict(list)
    for one in drawn:
        rows[columns[one]].append(one)
    first, highest = min(rows), max(map(len, rows.values()))
    height = highest * (BOX_HEIGHT + GAP_Y) - GAP_Y
    places: dict[str, tuple[int, int]] = {}
    for column, members in rows.items():
        top = (height - len(members) * (BOX_HEIGHT + GAP_Y) + GAP_Y) // 2
        for row, one in enumerate(sorted(members, key=lambda each: names[each] or "")):
            x = (column - first) * (BOX_WIDTH + GAP_X)
            places[one] = (x, top + row * (BOX_HEIGHT + GAP_Y))
    shown = [(a, b) for a, b in edges if a in places and b in places]
    arrows, lanes = [], 0
    for a, b in shown:
        if columns[b] - columns[a] > 1:  # boxes may lie between: the arrow passes below all
            lanes += 1
            arrows.append(_below(places[a], places[b], height + lanes * GAP_Y))
        else:
            arrows.append(_arrow(places[a], places[b]))
    return Drawing(
        width=len(range(first, max(rows) + 1)) * (BOX_WIDTH + GAP_X) - GAP_X,
        height=height + (lanes * GAP_Y + GAP_Y // 2 if lanes else 0),
        boxes=tuple(Box(*places[one], names[one], one == center) for one in drawn),
        arrows="".join(arrows),
        left_out=len(names) - len(drawn),
    )


def _columns(center: str, edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the steps from the center to each dataset on the longest path; inputs negative."""
    columns = {center: 0}
    for _ in range(len(edges)):
        before = dict(columns)
        for source, target in edges:
            if columns.get(target, 1) <= 0:
                columns[source] = min(columns.get(source, 0), columns[target] - 1)
            if columns.get(source, -1) >= 0:
                columns[target] = max(columns.get(target, 0), columns[source] + 1)
        if columns == before:
            break
    return columns


def _below(start: tuple[int, int], end: tuple[int, int], lane: int) -> str:
    """Return an arrow that goes down to `lane` beside its first box, and up before its last."""
    x, y = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2
    to_x, to_y = end[0], end[1] + BOX_HEIGHT // 2
    half = GAP_X // 2
    down = f"M{x} {y}C{x + half} {y} {x} {lane} {x + half} {lane}"
    up = f"H{to_x - half}C{to_x} {lane} {to_x - half} {to_y} {to_x} {to_y}"
    return f"{down}{up}{_head(to_x, to_y)}"


def _head(x: int, y: int) -> str:
    return f"M{x - 6} {y - 4}l6 4l-6 4"


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2
    to_x, to_y = end[0], end[1] + BOX_HEIGHT // 2
    half = (x + to_x) // 2
    return f"M{x} {y}C{half} {y} {half} {to_y} {to_x} {to_y}{_head(to_x, to_y)}"


def columns(visit: Visit, _: str) -> dict[str, Any]:
    """Return all columns with their members; the page of the dataset has the statistics."""
    said = texts_in(visit.state.data_schema)
    lines = [
        (*line, said.get(line[0], UNSAID))
        for field in fields_of(visit.state.data_schema)
        for line in column_lines(field["name"], field["type"])
    ]
    return {"lines": lines, "is_said": bool(said)}


def column_table(visit: Visit, most: int) -> tuple[list[dict[str, Any]], Profiled | None, bool]:
    """Return the first `most` columns with name, type and statistics, what these are of, None if
    they cannot be told, and whether they are being made."""
    fields = fields_of(visit.state.data_schema)[:most]
    lines = [
        (field, line) for field in fields for line in column_lines(field["name"], field["type"])
    ]
    names = tuple(field["name"] for field in fields)
    try:
        found = from_thread.run(
            visit.views.profiles.of, visit.entry, visit.caller, names, sample_size(len(fields))
        )
        is_made = found is None
    except NodeError:
        found, is_made = None, False
    said = texts_in(visit.state.data_schema)
    return [_row(field, line, found, said) for field, line in lines[:most]], found, is_made


def _row(
    field: dict[str, Any],
    line: tuple[str, str],
    found: Profiled | None,
    said: Mapping[str, ColumnTexts],
) -> dict[str, Any]:
    name, kind = line
    facts, is_whole = None, False
    if found is not None and found.profile.rows and name == field["name"]:
        nulls, ends = found.profile.nulls.get(name), found.ends.get(name)
        is_whole = nulls is not None
        values = found.sample.get(name, [])
        if is_whole or values:
            facts = facts_of(field["type"], values, ends if is_whole else None)
            facts = facts if nulls is None else replace(facts, nulls=nulls)
    return {
        "name": name,
        "type": kind,
        "said": said.get(name, UNSAID) if name == field["name"] else UNSAID,
        "facts": facts,
        "is_whole": is_whole,
        "bars": bars_path(facts.bars) if facts is not None and facts.bars else None,
    }
