"""The reference page of the API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..auth.actors import Actor
from ..http.contract import contract
from . import views
from .reference import reference
from .render import page
from .showing import shown
from .views import Views


def _documentation(given: Views, actor: Actor, _: Request) -> Response:
    content = reference(contract(given.access.tenancy))
    return page("reference", {**views.frame(given, actor, "/docs"), **content})


ROUTES = (Route("/docs", shown(_documentation)),)
