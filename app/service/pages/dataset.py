"""The page of a dataset: `?query=` asks by SQL, with `&format=` for a file of the rows."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..auth.access import Action
from ..auth.actors import Actor
from ..catalogs.catalogs import Catalogs
from ..http.deps import base_of, part_of
from ..limits.shares import caller_of
from ..read.outlines import Outlines
from . import dataset_view, views
from .asking import taken_along
from .render import page
from .showing import shown
from .views import Views


def routes(prefix: str) -> tuple[Route, ...]:
    """The pages of a dataset; `prefix` is the pattern of the addresses of datasets."""
    return (Route(prefix, shown(_dataset)), Route(prefix + "/", shown(_dataset)))


def _dataset(given: Views, actor: Actor, request: Request) -> Response:
    address = request.path_params
    entry = given.access.resolve(actor, address.get("account"), address["dataset"], Action.READ)
    caller = caller_of(request.scope)
    query, form = (request.query_params.get(name) for name in ("query", "format"))
    if query and form:
        return taken_along(given.queries, actor, caller, query, form)
    content = dataset_view.dataset(given, actor, entry, base_of(request), caller, query)
    catalogs = Catalogs(given.stores, given.access, part_of(request, Outlines))
    content["linked"] = catalogs.croissant(entry, base_of(request))
    return page("dataset", {**views.frame(given, actor, request.url.path), **content})
