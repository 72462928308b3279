"""The front page: the datasets this visitor may see."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..auth.actors import Actor
from ..datasets.datasets import description, list_datasets
from ..http.deps import base_of
from . import views
from .render import page
from .showing import shown
from .views import Views

DATASETS = 50
"""Datasets on one page of the list."""


def _home(given: Views, actor: Actor, request: Request) -> Response:
    after = request.query_params.get("after")
    content = _datasets(given, actor, base_of(request), after and after[:400])
    return page("home", {**views.frame(given, actor, "/"), **content})


def _datasets(given: Views, actor: Actor, base: str, after: str | None) -> dict[str, Any]:
    """One page of datasets, by alias."""
    entries, more = list_datasets(given.access, actor, account=None, after=after, limit=DATASETS)
    return {
        "base": base,
        "datasets": [description(given.stores, given.access, entry, base) for entry in entries],
        "after": after,
        "more": more,
    }


ROUTES = (Route("/", shown(_home)),)
