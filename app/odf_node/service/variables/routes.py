"""Routes for variables and secrets: those of a dataset, and those of the caller's account."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_storage.stores.ports.values import Scope

from ..auth.access import Unauthenticated, Unauthorized
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, MaintainedDep, StoresDep, wired
from . import variables as usecase
from .variables import NodeVariables, read_body, shown

MAX_BODY_BYTES = 256 * 1024
VariablesDep = Annotated[NodeVariables, Depends(wired(NodeVariables))]

router = APIRouter(prefix="/accounts/me/variables", tags=["variables"])


@router.get("", summary="One's own variables; secrets without their values")
def mine(stores: StoresDep, actor: ActorDep) -> Response:
    return JsonAnswer({"variables": usecase.list_variables(stores.variables, _owner(actor))})


@router.put("/{name}", summary="Set one of one's own variables")
async def set_mine(
    name: str, request: Request, variables: VariablesDep, actor: ActorDep
) -> Response:
    """Set `{"value": "…", "secret": true}` for all datasets that the account owns."""
    owner = _owner(actor)
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    return JsonAnswer(
        shown(await run_in_threadpool(usecase.set_variable, variables, owner, name, body))
    )


@router.delete("/{name}", status_code=204, summary="Remove one of one's own variables")
def remove_mine(name: str, stores: StoresDep, actor: ActorDep) -> Response:
    usecase.remove_variable(stores.variables, _owner(actor), name)
    return Response(status_code=204)


def variables(stores: StoresDep, entry: MaintainedDep) -> Response:
    """List the variables of the dataset; secrets without their values."""
    return JsonAnswer({"variables": usecase.list_variables(stores.variables, str(entry.id))})


async def set_one(
    name: str, request: Request, variables: VariablesDep, entry: MaintainedDep
) -> Response:
    """Set `{"value": "…", "secret": true}`; it overrides the account's variable of this name."""
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    owner = str(entry.id)
    return JsonAnswer(
        shown(await run_in_threadpool(usecase.set_variable, variables, owner, name, body))
    )


def remove_one(name: str, stores: StoresDep, entry: MaintainedDep) -> Response:
    usecase.remove_variable(stores.variables, str(entry.id), name)
    return Response(status_code=204)


def add_variable_routes(routes: APIRouter, prefix: str) -> None:
    """Add the routes for variables of datasets below their addresses."""
    tags: list[str | Enum] = ["variables"]
    all_, one = prefix + "/variables", prefix + "/variables/{name}"
    routes.get(all_, summary="Variables of a dataset", tags=tags)(variables)
    routes.put(one, summary="Set a variable or secret of a dataset", tags=tags)(set_one)
    routes.delete(one, summary="Remove one", status_code=204, tags=tags)(remove_one)


def _owner(actor: Actor) -> str:
    """Return the id of the caller's account.

    Raises:
        Unauthenticated: the caller is anonymous. Unauthorized: its token may not manage.
    """
    if actor.account is None:
        raise Unauthenticated
    if not actor.may(Scope.MANAGE):
        raise Unauthorized
    return str(actor.account.id)
