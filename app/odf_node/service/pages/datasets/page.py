"""The pages of a dataset. All have its address; the query parameter selects the page.

(nothing)            description, newest rows, and how to load the dataset
`?query=`            the same with the rows of a query; with `&format=` a file of these rows
`?rows=40`           current rows, without the newest 40; `sort`, `column`, `how` and `value` choose
`?changelog=40`      rows as they were recorded, without the newest 40
`?columns=`          all columns
`?history=`          its blocks, backwards from the block with that hash, by default from the head
`?block=`            the block with that hash
`?why=40`            why the row with that offset is there, as other pages of features
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha3_256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_storage.runtime.features import loaded

from ...auth.access import Action, DatasetHidden
from ...auth.actors import ANONYMOUS, Actor
from ...http.answers import is_named
from ...http.deps import base_of, part_of
from ...limits.shares import caller_of
from ...settings import Settings
from ..frame.render import page, shown
from ..frame.views import Views
from . import blocks, content, statistics, viewer
from .blocks import Visit, dataset_pages
from .query_form import taken_along

CARD_FRESH_S = 3600
"""Seconds for which a card may be kept elsewhere; its address has the head."""
View = Callable[[Visit, str], dict[str, Any]]
VIEWS: dict[str, tuple[str, View]] = {
    "rows": ("rows", viewer.rows),
    "changelog": ("rows", viewer.changelog),
    "columns": ("columns", statistics.columns),
    "history": ("history", blocks.history),
    "block": ("block", blocks.block),
}
"""Template and content function of a page, by the query parameter that selects it."""


def routes(prefix: str) -> tuple[Route, ...]:
    """Return the routes of the pages; `prefix` is the pattern of the addresses of datasets."""
    return (Route(prefix, shown(_dataset)), Route(prefix + "/", shown(_dataset)))


def _dataset(given: Views, actor: Actor, request: Request) -> Response:
    visit = _visit(given, actor, request)
    asked = request.query_params
    for name, (template, view) in VIEWS.items():
        if name in asked:
            return page(template, visit.content(**view(visit, asked[name])))
    for name, place in dataset_pages().items():
        if name in asked:
            return page("feature", visit.content(part=loaded(place)(visit, request), name=name))
    query, form = asked.get("query"), asked.get("format")
    if query and form:
        return taken_along(visit, query, form)
    return page("dataset", visit.content(**content.dataset(visit, query)))


def _visit(given: Views, actor: Actor, request: Request) -> Visit:
    """Return the context of this request. Raises the same errors as `DatasetAccess.resolve`."""
    address = request.path_params
    entry = given.access.resolve(actor, address.get("account"), address["dataset"], Action.READ)
    is_open = part_of(request, Settings).allow_anonymous and given.access.may_read(ANONYMOUS, entry)
    caller, asked = caller_of(request.scope), request.query_params
    return Visit(given, actor, entry, base_of(request), caller, is_open, asked)


def _card(given: Views, _: Actor, request: Request) -> Response:
    """Return the share card for a visitor without an account, whoever asks: previews have none.
    Raises `DatasetHidden` for all that such a visitor may not read."""
    from .cards import card, words_of  # not needed to start

    its = request.path_params
    entry = given.access.resolve(ANONYMOUS, its.get("account"), its["name"], Action.READ)
    if not part_of(request, Settings).allow_anonymous:
        raise DatasetHidden
    visit = Visit(given, ANONYMOUS, entry, base_of(request), caller_of(request.scope), is_open=True)
    profiled = statistics.column_table(visit, content.COLUMNS)[1]
    figures = content.drawn_of(visit, profiled)[0]
    key = (entry.id, visit.state.head, visit.alias, bool(figures))
    image = given.cards.of(key, lambda: card(words_of(visit, figures)))
    tag = f'"{sha3_256(image).hexdigest()}"'
    headers = {"etag": tag, "cache-control": f"public, max-age={CARD_FRESH_S}"}
    if is_named(
        request.headers.get("if-none-match", "").encode("latin-1"), tag.encode(), weak=True
    ):
        return Response(status_code=304, headers=headers)
    return Response(image, headers=headers, media_type="image/png")


CARD_ROUTES = tuple(
    Route(content.CARDS + each, shown(_card), methods=["GET"])
    for each in ("/{name}", "/{account}/{name}")
)
