"""`…/projections/kartothek`: a dataset published as a Kartothek dataset, by its maintainers."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_node.protocol.typed import decode_json
from odf_node.storage.datasets.kartothek.definition import Definition
from odf_node.storage.stores.ports.values import Succeeded

from ..http.answers import JsonAnswer
from ..http.bodies import MalformedBody, small_body
from ..http.deps import BaseDep, MaintainedDep, wired
from ..http.parameters import NO_BODY
from ..jobs.waiting import WaitingDep, accepted, job_answer, patience_of, receipt_answer
from . import publications as usecase
from .keep_up import settle
from .publications import Publishing

MAX_BODY_BYTES = 65_536
PublishingDep = Annotated[Publishing, Depends(wired(Publishing))]
Prefer = Annotated[str, Header()]
Force = Annotated[bool, Query()]


def show(publishing: PublishingDep, entry: MaintainedDep) -> Response:
    """How it is published, which block readers see, and what went wrong last."""
    settle(publishing, usecase.find(publishing, entry))
    return JsonAnswer(usecase.shown(publishing, entry))


async def define(
    request: Request,
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    prefer: Prefer = "",
) -> Response:
    """`{"mode": "state", "secondaryIndices": ["city"]}`; what is left out has its default.

    The answer waits for the first refresh as long as the caller has patience.
    """
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw or b"{}", Definition)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise MalformedBody(f"the publication cannot be read: {str(bad)[:300]}") from None
    job = await run_in_threadpool(usecase.define, publishing, entry, asked)
    await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    return await run_in_threadpool(show, publishing, entry)


async def refresh(
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    base: BaseDep,
    force: Force = False,
    prefer: Prefer = "",
) -> Response:
    """Bring it to the head; forced, it takes over what somebody else wrote there."""
    job = await run_in_threadpool(usecase.refresh, publishing, entry, force=force)
    return await job_answer(waiting, job, base, prefer)


async def withdraw(
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    base: BaseDep,
    force: Force = False,
    leave_files: Annotated[bool, Query(alias="leaveFiles")] = False,
    prefer: Prefer = "",
) -> Response:
    """What was published goes, its state file first; or it is left there, and the node
    forgets it. The dataset stays as it is."""
    if leave_files:
        await run_in_threadpool(usecase.abandon, publishing, entry)
        return Response(status_code=204)
    job = await run_in_threadpool(usecase.withdraw, publishing, entry, force=force)
    ended = await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    if ended is None:
        return accepted(job, base)
    return (
        Response(status_code=204) if isinstance(ended.outcome, Succeeded) else receipt_answer(ended)
    )


def add_projection_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the above below the dataset addresses."""
    tags: list[str | Enum] = ["projections"]
    path = prefix + "/projections/kartothek"
    routes.get(path, summary="How the dataset is published", tags=tags)(show)
    routes.put(path, summary="Publish the dataset", tags=tags)(define)
    routes.delete(path, summary="Withdraw what was published", tags=tags)(withdraw)
    routes.post(
        path + "/refresh",
        summary="Bring what is published to the head",
        tags=tags,
        dependencies=NO_BODY,
    )(refresh)
