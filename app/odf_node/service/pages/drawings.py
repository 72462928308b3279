"""Coordinates of drawings for SVG templates: bars of a column, and the lineage graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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
