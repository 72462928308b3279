"""HTTP routes for queries: /query, /jobs, /verify, and the keys that sign answers.

The list of an account's queries as jobs: their text, and how long their rows are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS, Instant
from odf_protocol.typed import decode_json
from odf_storage.datasets.job_payloads import query_job
from odf_storage.datasets.query.messages import Form
from odf_storage.datasets.read.formats import MEDIA_TYPES, Format
from odf_storage.stores.ports.values import Job, JobStatus, Reach, Scope, Succeeded

from ..auth.access import Unauthenticated, refuse_bad_token, unauthorized
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, BaseDep, SettingsDep, wired
from ..http.parameters import MAX_PAGE
from ..jobs.job_watch import WaitingDep, job_answer
from ..jobs.jobs import Jobs, find_job, parse_statuses, shown
from ..jobs.routes import DEFAULT_PAGE, JobsDep
from ..limits.shares import caller_of
from .background import (
    DIALECT,
    IN_JSON,
    BackgroundQueries,
    QueryBody,
    QueryRequest,
    checked,
    checked_for_background,
    parse_body,
    runs_in_background,
)
from .proofs import SigningKeys
from .query import Queries
from .verify import FileRows, Refuted, RowsAlone, Verification, document


def own_queries(
    jobs: Jobs,
    actor: Actor,
    *,
    keep_s: int,
    statuses: Collection[JobStatus] | None,
    after: str | None,
    limit: int,
) -> dict[str, Any]:
    """Return the jobs of the actor's account, newest first; `next` is `after` for the next page.

    Raises:
        TokenInvalid, TokenExpired.
        Unauthenticated: the caller is anonymous, or its token does not allow reading.
        Unauthorized: the token is for a part of the account's datasets; queries name others.
    """
    refuse_bad_token(actor)
    if actor.account is None or not actor.may(Scope.READ):
        raise Unauthenticated
    if actor.reach is not Reach.NODE:
        raise unauthorized("this token is for a part of the account's datasets only")
    found = jobs.queue.page(
        account=actor.account.id,
        kinds=[query_job.KIND],
        statuses=statuses,
        after=after,
        limit=limit,
        newest_first=True,
    )
    more = str(found[-1].id) if len(found) == limit else None
    return {"jobs": [_shown(job, keep_s) for job in found], "next": more}


def _shown(job: Job, keep_s: int) -> dict[str, Any]:
    document = {**shown(job), "query": query_job.payload_of(job.spec.payload).query}
    if isinstance(job.outcome, Succeeded) and job.finished_at is not None:
        document["rowsUntil"] = str(Instant(job.finished_at.ns + keep_s * NANOS))
    return document


T = TypeVar("T")
MAX_BODY_BYTES = 2 * 1024 * 1024
QueriesDep = Annotated[Queries, Depends(wired(Queries))]
BackgroundDep = Annotated[BackgroundQueries, Depends(wired(BackgroundQueries))]
KeysDep = Annotated[SigningKeys, Depends(wired(SigningKeys))]
VerificationDep = Annotated[Verification, Depends(wired(Verification))]
_BY_TYPE = {
    MEDIA_TYPES[form].partition(";")[0]: Form(form.value)
    for form in (Format.CSV, Format.NDJSON, Format.PARQUET, Format.ARROW)
}

router = APIRouter(tags=["query"])


@router.post("/query", summary="Query datasets by SQL")
async def ask(
    request: Request,
    queries: QueriesDep,
    keys: KeysDep,
    settings: SettingsDep,
    background: BackgroundDep,
    waiting: WaitingDep,
    actor: ActorDep,
    base: BaseDep,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Run the query of a JSON body. `Accept` may request only rows as CSV, NDJSON, Parquet or
    Arrow. A query in the dialect of Spark becomes a job."""
    body = parse_body(await _json(request))
    if runs_in_background(body, prefer):
        form = _accepted(request)
        asked_for = checked_for_background(body, form=Form.PARQUET if form in IN_JSON else form)
        job = await run_in_threadpool(background.submit, actor, caller_of(request.scope), asked_for)
        return await job_answer(waiting, job, base, prefer)
    asked = checked(body, form=_accepted(request), max_rows=settings.query_max_rows)
    return await _answered(request, queries, keys, actor, asked)


@router.get("/query", summary="Query datasets by SQL, as a link")
async def ask_by_link(
    request: Request,
    queries: QueriesDep,
    keys: KeysDep,
    settings: SettingsDep,
    actor: ActorDep,
    query: str,
    query_dialect: Annotated[str, Query(alias="queryDialect", max_length=50)] = DIALECT,
    projection: Annotated[str | None, Query(max_length=50)] = None,
    data_format: Annotated[str | None, Query(alias="dataFormat", max_length=50)] = None,
    form: Annotated[str | None, Query(alias="format", max_length=50)] = None,
    include: Annotated[str | None, Query(max_length=200)] = None,
    schema_format: Annotated[str | None, Query(alias="schemaFormat", max_length=50)] = None,
    skip: int = 0,
    limit: int | None = None,
) -> Response:
    """Run the query of the URL. `include` takes several parts, separated by commas."""
    body = QueryBody(
        query=query,
        query_dialect=query_dialect,
        projection=projection,
        data_format=data_format or form,
        include=[part.strip() for part in (include or "").split(",") if part.strip()],
        schema_format=schema_format,
        skip=skip,
        limit=limit,
    )
    asked = checked(body, form=_accepted(request), max_rows=settings.query_max_rows)
    return await _answered(request, queries, keys, actor, asked)


@router.get("/jobs", summary="Queries that one asked as jobs, newest first")
def own_jobs(
    background: BackgroundDep,
    jobs: JobsDep,
    actor: ActorDep,
    status: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1)] = DEFAULT_PAGE,
) -> Response:
    """List only the jobs of the caller's account. `status` takes several, separated by commas."""
    found = own_queries(
        jobs,
        actor,
        keep_s=background.keep_s,
        statuses=parse_statuses(status),
        after=after,
        limit=min(limit, MAX_PAGE),
    )
    return JsonAnswer(found)


@router.get("/jobs/{job}/rows", summary="Rows of a query that ran as a job")
def rows_of_job(job: str, background: BackgroundDep, jobs: JobsDep, actor: ActorDep) -> Response:
    """Return the rows to the account that submitted the job, as long as it may read the inputs."""
    found = find_job(jobs, actor, job).job
    receipt, stream = background.rows(actor, found)
    headers = {"content-length": str(receipt.bytes), "cache-control": "no-store"}
    return FileRows(stream, headers, MEDIA_TYPES[Format(receipt.input["dataFormat"])])


@router.post("/verify", summary="Check an answer that proves itself")
async def verify(request: Request, verification: VerificationDep, actor: ActorDep) -> Response:
    """Check the answer in the body: an answer with a proof, without its output."""
    body = await _json(request)
    try:
        form = await _unless_left(
            request, verification.check(actor, caller_of(request.scope), body)
        )
    except Refuted as refuted:
        error = {**refuted.facts, "message": refuted.message}
        return JsonAnswer({"ok": False, "error": error}, 400)
    return JsonAnswer({"ok": True} if form is None else {"ok": True, "textForm": form.value})


@router.get("/system/keys", summary="Keys by which this node signs answers")
def published(keys: KeysDep, base: BaseDep) -> Response:
    """Return the keys as `did:key`, and for verifiers of signed notes under the name by which
    clients reach the node; retired keys signed earlier answers."""
    name = base.partition("://")[2].rstrip("/")
    return JsonAnswer({"keys": keys.published(name)})


async def _answered(
    request: Request, queries: Queries, keys: SigningKeys, actor: Any, asked: QueryRequest
) -> Response:
    caller = caller_of(request.scope)
    if asked.form in IN_JSON:
        answer = document(queries, keys, actor, caller, asked)
        return await _unless_left(request, answer)
    rows = await _unless_left(request, queries.begin(actor, caller, asked))
    return RowsAlone(rows, asked.form)


async def _json(request: Request) -> Any:
    """Return the decoded body. Raises `BodyNotJson`, `BodyTooLong`, `MalformedBody`."""
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared != "application/json":
        raise BadInput("BodyNotJson", "Expected request with `Content-Type: application/json`")
    try:
        return decode_json(await small_body(request, MAX_BODY_BYTES), object)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise BadInput("MalformedBody", f"the body is no JSON: {str(bad)[:200]}") from None


def _accepted(request: Request) -> Form:
    """Return the first form that `Accept` names; else the default form."""
    for part in request.headers.get("accept", "").split(","):
        form = _BY_TYPE.get(part.partition(";")[0].strip().lower())
        if form is not None:
            return form
    return Form.AOS


async def _unless_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; cancel it if the client disconnects. Raises `ClientLeft`."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
            raise BadInput("ClientLeft", "the client left before its answer")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
