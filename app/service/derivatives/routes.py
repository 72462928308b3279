"""Derivatives: the graph of datasets around one of them."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, ReadableDep
from ..wiring import NodeDep
from .derivatives import dependencies as dependencies_of


def add_derivative_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the graph below the dataset addresses."""
    routes.get(
        prefix + "/dependencies", summary="What it reads, and who reads it", tags=["datasets"]
    )(dependencies)


def dependencies(node: NodeDep, actor: ActorDep, entry: ReadableDep) -> Response:
    """Datasets this caller may not see are left out, and what lies behind them."""
    return JsonAnswer(dependencies_of(node, actor, entry))
