"""The front page: the datasets that the visitor may read, with search, filters and order by GET."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput
from odf_protocol.instant import day_or_instant
from odf_storage.stores.ports.overviews import WantedOverviews

from ....client.nodes.limits import age_text
from ...auth.actors import Actor
from ...datasets.datasets import detailed_summary
from ...datasets.listing import MAX_SEARCH_CHARS, ListingRequest, question
from ...errors import status_of
from ...http.deps import base_of
from ...setting_groups.words import Tenancy
from ..datasets.statistics import bars_path
from ..frame import views
from ..frame.render import (
    page,
    page_number,
    pages,
    shown,
)
from ..frame.views import Views

FRESH = (("day", 1), ("week", 7), ("month", 30), ("year", 365))
"""Words and days of the facet of freshness."""
DATASETS = 50
"""Datasets on one page of the list."""
SHOWN_KEYWORDS = 5
CARDS = "cards"
"""Value of the parameter `view` for a card per dataset in place of a row of a table."""
Link = Callable[..., str]
"""A function from a request to the address of its list."""


def _home(given: Views, actor: Actor, request: Request) -> Response:
    asked = asked_of(request)
    content = views.frame(given, actor, "/")
    try:
        found = datasets(given, actor, asked, request, "/")
    except BadInput as error:
        problem = {"asked": asked, "problem": error.message, "base": base_of(request)}
        return page("home", content | around_list(given, request) | problem, int(status_of(error)))
    return page("home", content | around_list(given, request) | found)


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of a facet, how many datasets of the list have it, and the address of the list with
    these alone; of a chosen one, of the list without this choice."""

    text: str
    count: int
    link: str
    is_chosen: bool


def facets(
    given: Views, asked: ListingRequest, wanted: WantedOverviews, link: Link
) -> dict[str, list[Choice]]:
    """Return the choices that narrow the list down, by the titles of the facets."""
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days)).isoformat() for _, days in FRESH]
    times = tuple(map(day_or_instant, days))
    found = given.facets.of((wanted, times), lambda: given.access.overviews.facets(wanted, times))
    values: dict[str, tuple[str, list[tuple[str, str, int]]]] = {
        "Kind": ("kind", [(text.lower(), text.lower(), count) for text, count in found.kind]),
        "License": ("license", [(text, text, count) for text, count in found.license]),
        "Account": ("account", [(text, text, count) for text, count in found.account]),
        "Keyword": ("keyword", [(text, text, count) for text, count in found.keyword]),
        "Changed within": (
            "since",
            [
                (f"a {words}", day, count)
                for (words, _), day, count in zip(FRESH, days, found.changed, strict=True)
            ],
        ),
    }
    made = {}
    for title, (name, several) in values.items():
        chosen = getattr(asked, name)
        choices = [
            Choice(text, count, link(replace(asked, **{name: value})), is_chosen=False)
            for text, value, count in several
            if count
        ]
        if chosen:
            without = link(replace(asked, **{name: None}))
            made[title] = [Choice(str(chosen), 0, without, is_chosen=True)]
        elif len(choices) > 1:
            made[title] = choices
    return made


def asked_of(request: Request) -> ListingRequest:
    """Return the parameters of the address; empty fields of the form count as absent."""
    given = request.query_params
    return ListingRequest(
        **{name: given[name] for name in asdict(ListingRequest()) if given.get(name)}
    )


def datasets(
    given: Views,
    actor: Actor,
    asked: ListingRequest,
    request: Request,
    path: str,
    *,
    account: str | None = None,
) -> dict[str, Any]:
    """Return one page of the list at `path`, which may be the page of an account.

    Raises `MalformedPage`, and the same errors as `question`.
    """
    number = page_number(request.query_params.get("page"))
    wanted = question(given.access, actor, replace(asked, account=account or asked.account))
    total = wanted.total
    found = given.access.overviews.page(
        wanted.wanted, wanted.order, skip=(number - 1) * DATASETS, limit=DATASETS
    )
    base, now = base_of(request), datetime.now(UTC)
    view = _view(request)
    link = partial(_link, f"{views.root_of(given)}{path}", view=view)
    shown_ones = [detailed_summary(given.stores, given.access, one, base) for one in found]
    return {
        "base": base,
        "asked": asked,
        "problem": None,
        "total": total,
        "datasets": [
            {
                **one,
                "age": age_text(one["updatedAt"], now),
                "keywords": one["keywords"][:SHOWN_KEYWORDS],
                "bars": bars_path(listed.overview.added)
                if listed.overview is not None and len(listed.overview.added) > 1
                else None,
            }
            for one, listed in zip(shown_ones, found, strict=True)
        ],
        "forgives": wanted.wanted.forgives and total > 0,
        "facets": facets(given, asked, wanted.wanted, link),
        "order": wanted.order,
        "sorted_by": {
            by: link(replace(asked, sort=by, order=_turned(wanted.order, by)))
            for by in ("name", "updated", "rows", "bytes")
        },
        "pages": pages(number, total, DATASETS, lambda to: link(asked, page=to)),
        "other_view": link(asked, view=None if view else CARDS),
        "first": (number - 1) * DATASETS + 1,
    }


def around_list(given: Views, request: Request) -> dict[str, Any]:
    """Return what the search form of a list needs."""
    view = _view(request)
    is_multi = given.access.tenancy is Tenancy.MULTI
    return {"is_multi": is_multi, "max_search_chars": MAX_SEARCH_CHARS, "view": view}


def _view(request: Request) -> str | None:
    return CARDS if request.query_params.get("view") == CARDS else None


def _turned(order: Any, by: str) -> str | None:
    """Return the opposite direction if the list is already ordered by this column; else None."""
    if order.by != by:
        return None
    return "asc" if order.descending else "desc"


def _link(address: str, asked: ListingRequest, **more: object) -> str:
    said = {name: text for name, text in (asdict(asked) | more).items() if text}
    return f"{address}?{urlencode(said)}" if said else address


ROUTES = (Route("/", shown(_home)),)
