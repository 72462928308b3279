"""Numbered pages of a list: links to the first, the last and those around the one that is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odf_node.protocol.errors import BadInput

AROUND = 2
MAX_DIGITS = 9


class MalformedPage(BadInput):
    """The number of a page that is none."""

    def __init__(self) -> None:
        super().__init__("page is a number from 1 on; leave it out for the first page")


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page of a list: its number, and where it is; None for the one that is shown."""

    number: int
    link: str | None


@dataclass(frozen=True, slots=True)
class Pages:
    """Links between pages. None in `numbers` stands for those that are left out."""

    numbers: list[PageLink | None]
    before: str | None
    behind: str | None


def page_number(text: str | None) -> int:
    """Raises `MalformedPage`."""
    if not text:
        return 1
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or int(text) < 1:
        raise MalformedPage
    return int(text)


def pages(number: int, total: int, size: int, link: Callable[[int], str]) -> Pages:
    """The links of page `number` of a list of `total` items, `size` of them on a page."""
    last = max(1, -(-total // size))
    shown = sorted({1, last, *range(max(1, number - AROUND), min(last, number + AROUND) + 1)})
    numbers: list[PageLink | None] = []
    for before, at in zip([0, *shown], shown, strict=False):
        if at > before + 1:
            numbers.append(None)
        numbers.append(PageLink(at, None if at == number else link(at)))
    return Pages(
        numbers=numbers,
        before=link(min(number - 1, last)) if number > 1 else None,
        behind=link(number + 1) if number < last else None,
    )
