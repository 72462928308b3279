"""`POST /graphql`: the one query that the command `search` of the reference node sends.

GraphQL is no interface of this node. That command asks all its repositories and ends at the first
one that does not answer, so this search is answered. The schema has nothing else: any other query
gets an error in the form of GraphQL.

Routes for maintainers of a dataset: its visibility, its roles, and its name.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import AliasTaken

from ..auth.access import refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import AccessDep, ActorDep, BaseDep, MaintainedDep, ReadableDep, StoresDep, wired
from ..http.parameters import MAX_PAGE
from . import listing as usecase
from .datasets import rename_dataset, summary
from .listing import DatasetRoles, parse_role, parse_visibility

MAX_BODY_BYTES = 64 * 1024
router = APIRouter(tags=["datasets"])


@router.post("/graphql", summary="The search of the reference node's command")
async def graphql(
    request: Request, stores: StoresDep, access: AccessDep, actor: ActorDep
) -> Response:
    """The body is `{"query": "…", "variables": {…}}`. Any other query gets `errors`."""
    refuse_bad_token(actor)
    raw = await small_body(request, MAX_BODY_BYTES)
    return JsonAnswer(await run_in_threadpool(_answered, stores, access, actor, raw))


def _answered(stores: Stores, access: DatasetAccess, actor: Actor, raw: bytes) -> dict[str, Any]:
    from .graphql_search import GraphqlBody, SearchOfRequest, answered  # with the first request

    try:
        body = decode_json(raw, GraphqlBody)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput("MalformedBody", f"the request cannot be read: {str(bad)[:300]}") from None
    return answered(SearchOfRequest(stores, access, actor, MAX_PAGE), body)


MAX_ACCESS_BODY_BYTES = 4096
RolesDep = Annotated[DatasetRoles, Depends(wired(DatasetRoles))]


def access(roles: RolesDep, entry: MaintainedDep) -> Response:
    """Return visibility, owner, and all roles."""
    return JsonAnswer(usecase.access_of(roles, entry))


def role(
    name: str, roles: RolesDep, access: AccessDep, actor: ActorDep, entry: ReadableDep
) -> Response:
    """Return the caller's own role, or, for maintainers, that of any account; null for none."""
    return JsonAnswer(usecase.role_of(roles, access, actor, entry, name))


async def give(name: str, request: Request, roles: RolesDep, entry: MaintainedDep) -> Response:
    """The body is `{"role": "Reader" | "Editor" | "Maintainer"}`. It replaces an earlier role."""
    asked = parse_role(await _text(request, "role"))
    return JsonAnswer(await run_in_threadpool(usecase.give_role, roles, entry, name, asked))


def take(name: str, roles: RolesDep, entry: MaintainedDep) -> Response:
    usecase.take_role(roles, entry, name)
    return Response(status_code=204)


async def visibility(
    request: Request, stores: StoresDep, access: AccessDep, entry: MaintainedDep
) -> Response:
    """The body is `{"visibility": "Public" | "Private"}`."""
    asked = parse_visibility(await _text(request, "visibility"))
    changed = await run_in_threadpool(
        usecase.change_visibility, stores, access.entries, entry, asked
    )
    return JsonAnswer({"visibility": changed.visibility.value})


async def name(
    request: Request,
    stores: StoresDep,
    access: AccessDep,
    entry: MaintainedDep,
    base: BaseDep,
) -> Response:
    """The body is `{"name": "…"}`. The dataset stays in its account."""
    asked = await _text(request, "name")
    try:
        renamed = await run_in_threadpool(rename_dataset, stores, access.entries, entry, asked)
    except AliasTaken as taken:
        raise AliasTaken(access.written(DatasetAlias.parse(str(taken.facts["alias"])))) from None
    return JsonAnswer(summary(access, renamed, base))


def add_access_routes(routes: APIRouter, prefix: str) -> None:
    """Serve these routes below the dataset addresses. Names of handlers must not clash."""
    tags: list[str | Enum] = ["access"]
    one = prefix + "/access/{name}"
    routes.get(prefix + "/access", summary="Who has access to the dataset", tags=tags)(access)
    routes.get(one, summary="Role of an account", tags=tags)(role)
    routes.put(one, summary="Give an account a role", tags=tags)(give)
    routes.delete(one, summary="Take its role from an account", status_code=204, tags=tags)(take)
    routes.put(prefix + "/visibility", summary="Make it public or private", tags=tags)(visibility)
    routes.put(prefix + "/name", summary="Call it otherwise", tags=tags)(name)


async def _text(request: Request, field: str) -> str:
    body: Any = None
    try:
        body = decode_json(await small_body(request, MAX_ACCESS_BODY_BYTES), object)
    except (msgspec.DecodeError, UnicodeError):
        body = None
    value = body.get(field) if isinstance(body, dict) else None
    if not isinstance(value, str):
        raise BadInput("MalformedBody", f'the body has to be JSON: {{"{field}": "…"}}')
    return value
