"""`…/projections/kartothek`: maintainers publish a dataset as a Kartothek dataset."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.typed import decode_json
from odf_storage.datasets.kartothek.definition import Definition
from odf_storage.stores.ports.values import Succeeded

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
    """Return the definition, the published block, and the last error."""
    settle(publishing, usecase.find(publishing, entry))
    return JsonAnswer(usecase.shown(publishing, entry))


async def define(
    request: Request,
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    prefer: Prefer = "",
) -> Response:
    """Publish by `{"mode": "state", "secondaryIndices": ["city"]}`; absent members have defaults.

    The response waits for the first refresh for as long as the caller allows.
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
    """Update the publication to the head; `force` takes over a foreign dataset in the store."""
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
    """Remove the published files, the state file first; with `leaveFiles`, remove only the
    publication. The dataset itself stays unchanged."""
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
    """Add the routes below the dataset addresses."""
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
