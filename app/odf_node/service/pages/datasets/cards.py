"""Share cards: the picture of a dataset that is shown beside a link to its page elsewhere.

A card has the name, the sentence, the number of rows, the day of the last change and the first
drawing of the picture. `dataset.py` serves it.

`card` is a pure function: the same words give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from ... import pages
from ...datasets.datasets import description
from ..frame.cells import fields_of
from ..frame.pictures import WIDTH, Figure
from ..frame.render import moment_text
from .blocks import Visit
from .content import sentence_of

SIZE = CARD_WIDTH, CARD_HEIGHT = 1200, 630
MARGIN = 64
PAPER, INK, QUIET, LINE = "#ffffff", "#1c1b22", "#5b5b66", "#2563a8"
NAME_SIZES = (64, 52, 40, 30)
"""Sizes of the name; the first in which it fits its line is taken."""
SENTENCE_LINES, SENTENCE_SIZE, SMALL = 3, 32, 28
DRAWING = (MARGIN, 330, CARD_WIDTH - 2 * MARGIN, 200)
"""Left, top, width and height of the drawing."""
PREFERRED = ("line", "area", "map", "bars")
"""Kinds of figures, the one that is drawn first."""
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWords:
    """What a card says."""

    node: str
    name: str
    sentence: str
    facts: str
    figure: Figure | None = None


def words_of(visit: Visit, figures: Sequence[Figure]) -> CardWords:
    views, state = visit.views, visit.state
    told = description(views.stores, views.access, visit.entry, visit.base)
    rows = f"{told['records']:,} row{'' if told['records'] == 1 else 's'}"
    columns = f"{len(fields_of(state.data_schema))} columns"
    license_ = [told["license"]["shortName"][:40]] if told["license"] else []
    changed = f"changed {moment_text(told['updatedAt'])[:10]}"
    chosen = [each for kind in PREFERRED for each in figures if each.kind == kind]
    return CardWords(
        node=views.face.name,
        name=visit.alias,
        sentence=sentence_of(told) if told["description"] else "",
        facts=" · ".join([rows, columns, changed, *license_]),
        figure=next(iter(chosen), None),
    )


def card(words: CardWords) -> bytes:
    """Return the card as PNG. A text with signs that the font lacks is left out, except the name,
    which has none."""
    image = Image.new("RGB", SIZE, PAPER)
    draw = ImageDraw.Draw(image)
    room = CARD_WIDTH - 2 * MARGIN
    draw.rectangle((0, 0, CARD_WIDTH, 12), fill=LINE)
    draw.text((MARGIN, 44), _fitted(_written(words.node), SMALL, room), QUIET, _font(SMALL))
    size = next(
        (each for each in NAME_SIZES if _font(each).getlength(words.name) <= room), NAME_SIZES[-1]
    )
    draw.text((MARGIN, 92), _fitted(words.name, size, room), INK, _font(size))
    for number, line in enumerate(_lines(_written(words.sentence), room)):
        draw.text((MARGIN, 184 + 44 * number), line, INK, _font(SENTENCE_SIZE))
    if words.figure is not None:
        _drawing(draw, words.figure)
    facts = _fitted(_written(words.facts), SMALL, room)
    draw.text((MARGIN, CARD_HEIGHT - 72), facts, QUIET, _font(SMALL))
    made = BytesIO()
    image.quantize(64).save(made, "PNG", optimize=True)
    return made.getvalue()


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    file = files(pages).joinpath("fonts", "card.ttf")
    return ImageFont.truetype(BytesIO(file.read_bytes()), size)


@cache
def _unknown() -> bytes:
    """Return the picture of a sign that the font lacks."""
    return bytes(_font(SMALL).getmask("\U0010ffff"))


def _written(text: str) -> str:
    """Return the text, or none of it if the font lacks one of its signs: a row of equal boxes says
    nothing."""
    known = all(each == " " or bytes(_font(SMALL).getmask(each)) != _unknown() for each in {*text})
    return text if known else ""


def _fitted(text: str, size: int, room: int) -> str:
    """Return the text, cut to the room in pixels."""
    if _font(size).getlength(text) <= room:
        return text
    while text and _font(size).getlength(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…"


def _lines(text: str, room: int) -> list[str]:
    """Return the text in lines of whole words; the last one is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (
            len(lines) == SENTENCE_LINES or _font(SENTENCE_SIZE).getlength(longer) <= room
        ):
            lines[-1] = longer
        else:
            lines.append(word)
    return [_fitted(line, SENTENCE_SIZE, room) for line in lines]


def _drawing(draw: ImageDraw.ImageDraw, figure: Figure) -> None:
    """Draw a figure of the page in the lower part of the card."""
    left, top, width, height = DRAWING
    x_scale, y_scale = width / WIDTH, height / max(1, figure.height)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x * x_scale, top + y * y_scale

    if figure.kind == "bars":
        step = height / max(1, len(figure.bars))
        for number, (_, _, wide) in enumerate(figure.bars):
            y = top + number * step
            draw.rectangle((left, y, left + wide * x_scale, y + step * 0.7), fill=LINE)
        return
    for piece in figure.path.split("M")[1:]:
        numbers = [int(each) for each in _NUMBER.findall(piece)]
        _piece(draw, figure.kind, piece, numbers, at)


def _piece(draw: ImageDraw.ImageDraw, kind: str, piece: str, numbers: list[int], at: Any) -> None:
    x, y = numbers[:2]
    if kind == "area":  # a bar: x, y, v-height, h width
        draw.rectangle((at(x, y + numbers[2]), at(x + numbers[3], y)), fill=LINE)
    elif kind == "map":
        right, below = at(x, y)
        draw.ellipse((right - 5, below - 5, right + 5, below + 5), fill=LINE)
    elif "V" in piece:
        draw.line((at(x, y), at(x, numbers[2])), fill=LINE, width=3)
    else:
        points = [at(*pair) for pair in _pairs(numbers)]
        draw.line(points, fill=LINE, width=5, joint="curve")


def _pairs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(numbers[::2], numbers[1::2], strict=True)
