"""Lists of the datasets that an actor may read, with search, filters, order and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import DatasetKind
from odf_storage.stores.overviews.words import words_of
from odf_storage.stores.ports.overview_values import (
    Listed,
    Order,
    SortBy,
    Wanted,
)
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..auth.readable import readable
from .access import parse_visibility
from .list_cursors import cursor_behind, read_cursor

MAX_SEARCH_CHARS = 200
MAX_SEARCH_WORDS = 10
"""Limit of words in a search, because each word needs its own lookup."""
_IN_NO_WORD = " "
"""A word that no dataset has."""
_Word = TypeVar("_Word", bound=str)


class SearchTooLong(BadInput):
    """A search has too many characters or words."""


class UnknownKind(BadInput):
    """The kind of dataset is neither root nor derivative."""


class UnknownOrder(BadInput):
    """Lists cannot be sorted by this property, or the direction is neither asc nor desc."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parameters of a list as clients write them. An empty one has no effect."""

    search: str | None = None
    kind: str | None = None
    account: str | None = None
    visibility: str | None = None
    keyword: str | None = None
    sort: str | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A query to the index."""

    wanted: Wanted
    order: Order


def question(access: DatasetAccess, actor: Actor, asked: Asked) -> Question:
    """Check the parameters of a list, and return the query to the index.

    Raises:
        SearchTooLong, UnknownKind, UnknownVisibility, UnknownOrder.
    """
    by = _one_of(SortBy, asked.sort or SortBy.NAME, UnknownOrder, "sort")
    usual = "asc" if by is SortBy.NAME else "desc"
    order = (asked.order or usual).lower()
    if order not in ("asc", "desc"):
        raise UnknownOrder(f"order is asc or desc, not {order[:50]!r}")
    kind = (
        _one_of(DatasetKind, asked.kind.capitalize(), UnknownKind, "kind") if asked.kind else None
    )
    wanted = Wanted(
        readable=readable(actor, access.reads),
        words=_words(asked.search or ""),
        kind=kind,
        account=asked.account or None,
        visibility=parse_visibility(asked.visibility) if asked.visibility else None,
        keyword=asked.keyword or None,
    )
    return Question(wanted, Order(by, order == "desc"))


def page_of(
    access: DatasetAccess, asked: Question, *, after: str | None, limit: int
) -> tuple[Sequence[Listed], str | None]:
    """Return a page, and the cursor of the next one (None at the end). Raises
    `MalformedCursor`."""
    order = asked.order
    behind = None if after is None else read_cursor(after, order.by)
    found = access.overviews.page(asked.wanted, order, after=behind, limit=limit + 1)
    page = found[:limit]
    return page, cursor_behind(page[-1], order.by) if len(found) > limit else None


def list_datasets(
    access: DatasetAccess, actor: Actor, *, account: str | None, after: str | None, limit: int
) -> tuple[list[DatasetEntry], str | None]:
    """Return a page of datasets that the actor may read, ordered by alias, and the cursor of the
    next page (None at the end)."""
    asked = question(access, actor, Asked(account=account))
    page, more = page_of(access, asked, after=after, limit=limit)
    return [listed.entry for listed in page], more


def _words(search: str) -> tuple[str, ...]:
    """Return the words of a search. A search of punctuation only gets a word that no dataset has,
    so that it finds nothing."""
    if len(search) > MAX_SEARCH_CHARS:
        raise SearchTooLong(
            f"a search has {MAX_SEARCH_CHARS} characters at most, this one {len(search)}"
        )
    words = words_of(search)
    if len(words) > MAX_SEARCH_WORDS:
        raise SearchTooLong(
            f"a search has {MAX_SEARCH_WORDS} different words at most, this one {len(words)}"
        )
    return words or ((_IN_NO_WORD,) if search.strip() else ())


def _one_of(known: type[_Word], text: str, error: type[BadInput], what: str) -> _Word:
    try:
        return known(text)
    except ValueError:
        names = ", ".join(str(one).lower() for one in known)  # type: ignore[attr-defined]
        raise error(f"{what} is one of {names}; not {text[:50]!r}") from None
