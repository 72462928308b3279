"""POST …/verify: have a worker verify a dataset and reproduce its executions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ..http.deps import ActorDep, BaseDep, WritableDep, wired
from ..http.parameters import NO_BODY
from ..jobs.waiting import WaitingDep, job_answer
from .verify import Verifying, VerifyRequest, submit_verify

VerifyingDep = Annotated[Verifying, Depends(wired(Verifying))]
Hash = Annotated[str | None, Query(max_length=200)]


def add_verify_routes(router: APIRouter, prefix: str) -> None:
    """Add the route below the dataset addresses."""
    router.post(
        prefix + "/verify",
        summary="Have everything checked by a worker",
        tags=["history"],
        dependencies=NO_BODY,
    )(verify)


async def verify(
    verifying: VerifyingDep,
    waiting: WaitingDep,
    actor: ActorDep,
    entry: WritableDep,
    base: BaseDep,
    metadata_only: Annotated[bool, Query(alias="metadataOnly")] = False,
    rows: bool = True,
    replay: bool = True,
    recursive: bool = False,
    after: Hash = None,
    upto: Hash = None,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Return the report, or 202 with the job if the verification takes too long."""
    request = VerifyRequest(
        metadata_only=metadata_only,
        rows=rows,
        replay=replay,
        recursive=recursive,
        after=after,
        upto=upto,
    )
    job = await run_in_threadpool(submit_verify, verifying, actor, entry, request)
    return await job_answer(waiting, job, base, prefer)
