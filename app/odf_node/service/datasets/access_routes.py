"""Routes for maintainers of a dataset: its visibility, its roles, and its name."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.typed import decode_json

from ..http.answers import JsonAnswer
from ..http.bodies import MalformedBody, small_body
from ..http.deps import (
    AccessDep,
    ActorDep,
    BaseDep,
    MaintainedDep,
    ReadableDep,
    StoresDep,
    wired,
)
from . import access as usecase
from .access import DatasetRoles, parse_role, parse_visibility
from .rename_and_remove import rename_dataset
from .summaries import summary

MAX_BODY_BYTES = 4096
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
    renamed = await run_in_threadpool(rename_dataset, stores, access.entries, entry, asked)
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
        body = decode_json(await small_body(request, MAX_BODY_BYTES), object)
    except (msgspec.DecodeError, UnicodeError):
        body = None
    value = body.get(field) if isinstance(body, dict) else None
    if not isinstance(value, str):
        raise MalformedBody(f'the body has to be JSON: {{"{field}": "…"}}')
    return value
