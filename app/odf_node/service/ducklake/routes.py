"""`/ducklake`: what a caller may read as a lake of DuckDB, read only.

Source: DuckLake specification 1.0.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput, NodeError

from ..auth.access import refuse_bad_token
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, BaseDep, wired
from ..limits.shares import caller_of
from ..projections.gateway import file_answer
from .lakes import Lakes, no_such_lake

FOLDER = "/ducklake/"
_NAME = re.compile(r"([0-9a-f]{64})\.ducklake", re.ASCII)
router = APIRouter(tags=["ducklake"])


async def known(actor: ActorDep) -> Actor:
    """Return the actor. Raises `TokenInvalid`, `TokenExpired`."""
    refuse_bad_token(actor)
    return actor


KnownDep = Annotated[Actor, Depends(known)]
LakesDep = Annotated[Lakes, Depends(wired(Lakes))]


def not_served(method: str, _: str) -> NodeError:
    """Return the error for a request that no route of a lake serves."""
    if method in ("GET", "HEAD"):
        return no_such_lake()
    return BadInput(
        "CatalogueIsReadOnly",
        "a lake is read only: rows are added by POST …/ingest, or by a push of blocks",
    )


@router.get("/ducklake", summary="Where the lake of what the caller may read is")
async def newest(
    request: Request,
    actor: KnownDep,
    lakes: LakesDep,
    base: BaseDep,
    account: Annotated[str | None, Query(max_length=400)] = None,
) -> Response:
    """Name the lake as of now, and what it leaves out. `account` asks for datasets of one account
    only."""
    found = await lakes.newest(actor, account, base, caller_of(request.scope))
    url = f"{base}{FOLDER[1:]}{found.state}.ducklake"
    told = {
        "attach": f"ATTACH 'ducklake:{url}' AS odf (READ_ONLY)",
        "catalogue": url,
        "datasets": len(found.datasets),
        "leftOut": [each._asdict() for each in found.left_out],
    }
    return JsonAnswer(told, headers={"cache-control": "no-store"})


@router.get(FOLDER + "{name}", summary="A lake: the catalogue file of one state")
async def catalogue(name: str, request: Request, actor: KnownDep, lakes: LakesDep) -> Response:
    """Return the file, or one range of it. It never changes."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise no_such_lake()
    file = await run_in_threadpool(lakes.file, actor, match[1])
    return file_answer(file, request)
