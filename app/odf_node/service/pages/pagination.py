"""Links between numbered pages of a list: the first, the last, and those around the current one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odf_protocol.errors import BadInput

AROUND = 2
MAX_DIGITS = 9


class MalformedPage(BadInput):
    """The page parameter is no valid page number."""

    def __init__(self) -> None:
        super().__init__("page is a number from 1 on; leave it out for the first page")


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page of a list: its number and its address; None for the current page."""

    number: int
    link: str | None


@dataclass(frozen=True, slots=True)
class Pages:
    """Links between pages. None in `numbers` stands for omitted pages."""

    numbers: list[PageLink | None]
    before: str | None
    behind: str | None


def page_number(text: str | None) -> int:
    """Parse the page parameter; absent means 1. Raises `MalformedPage`."""
    if not text:
        return 1
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or int(text) < 1:
        raise MalformedPage
    return int(text)


def pages(number: int, total: int, size: int, link: Callable[[int], str]) -> Pages:
    """Return the links of page `number` in a list of `total` items with `size` items per page."""
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
