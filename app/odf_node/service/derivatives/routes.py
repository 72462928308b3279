"""Route for the graph of datasets around one dataset."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, ReadableDep, wired
from .derivatives import Derivatives
from .derivatives import dependencies as dependencies_of

DerivativesDep = Annotated[Derivatives, Depends(wired(Derivatives))]


def add_derivative_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the graph of dependencies below the dataset addresses."""
    routes.get(
        prefix + "/dependencies", summary="What it reads, and who reads it", tags=["datasets"]
    )(dependencies)


def dependencies(derivatives: DerivativesDep, actor: ActorDep, entry: ReadableDep) -> Response:
    """Return the graph, without datasets that the caller may not see and without datasets that are
    reachable only through these."""
    return JsonAnswer(dependencies_of(derivatives, actor, entry))
