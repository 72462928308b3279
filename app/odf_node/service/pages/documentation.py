"""The reference page of the API."""

from __future__ import annotations

from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..auth.actors import Actor
from ..http.contract import contract
from ..setting_groups.words import Tenancy
from . import views
from .reference import reference
from .render import page, rendered, tagged
from .showing import shown
from .views import Views


def _documentation(given: Views, actor: Actor, request: Request) -> Response:
    text = _reference(given.access.tenancy, views.root_of(given))
    answer = page("reference", {**views.frame(given, actor, "/docs"), "reference": text})
    return tagged(answer, request)


@cache
def _reference(tenancy: Tenancy, root: str) -> str:
    """Return what the page says to everybody, which is long; it is rendered once."""
    return rendered("operations", {**reference(contract(tenancy)), "root": root})


ROUTES = (Route("/docs", shown(_documentation)),)
