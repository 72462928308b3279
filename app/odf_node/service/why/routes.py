"""GET …/why: why a row is there, as JSON, as W3C PROV-JSON or as OpenLineage events."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import LimitExceeded
from odf_storage.datasets.job_payloads import why_job
from odf_storage.datasets.job_payloads.why_job import WhyAnswer
from odf_storage.stores.ports.values import Succeeded

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, BaseDep, ReadableDep, wired
from ..jobs.job_watch import WaitingDep, accepted, patience_of, receipt_answer
from ..limits.shares import caller_of
from . import openlineage, prov
from .question import Provenance, WhyQuestion, submit, with_columns

MAX_OFFSET = 2**53
COLUMNS = 100
"""Limit of columns that a question may name."""
KEYS = 100
"""Limit of columns of a key."""
KeyValue = Annotated[str, StringConstraints(max_length=10_000)]
ProvenanceDep = Annotated[Provenance, Depends(wired(Provenance))]
Shape = Callable[[WhyAnswer, str], Any]
SHAPES: dict[str, Shape] = {
    "application/json": lambda answer, _: why_job.to_json(answer),
    prov.MEDIA_TYPE: prov.prov_json,
    openlineage.MEDIA_TYPE: openlineage.run_events,
}
"""Forms of the answer by media type; the first is the default."""


async def why(
    request: Request,
    parts: ProvenanceDep,
    waiting: WaitingDep,
    actor: ActorDep,
    entry: ReadableDep,
    base: BaseDep,
    offset: Annotated[int | None, Query(ge=0, le=MAX_OFFSET)] = None,
    key: Annotated[list[KeyValue] | None, Query(max_length=KEYS)] = None,
    column: Annotated[list[str] | None, Query(max_length=COLUMNS)] = None,
    depth: Annotated[str, Query(max_length=10)] = "1",
    at: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[str | None, Query(max_length=100)] = None,
    prefer: Annotated[str, Header()] = "",
    accept: Annotated[str, Header()] = "",
) -> Response:
    """Say from which rows of the inputs, or by which post or poll, a row came to be. Of inputs that
    the caller may not read, the answer has only the ids."""
    asked = WhyQuestion(
        offset=offset,
        key=tuple(key or ()),
        columns=tuple(column or ()),
        depth=depth,
        at=at,
        after=after,
    )
    asked.steps()
    job = await run_in_threadpool(submit, parts, actor, entry, asked)
    ended = await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    if ended is None and actor.account is None:
        raise LimitExceeded(
            "AnswerTooSlow",
            "the answer is not there yet; ask again, or log in, and it is kept as a job",
            limit=waiting.most_s,
            setting="ODF_NODE_INGEST_WAIT_S",
        )
    if ended is None:
        return accepted(job, base)
    if not isinstance(ended.outcome, Succeeded):
        return receipt_answer(ended)
    answer = why_job.answer_of(ended.outcome.result)
    caller = caller_of(request.scope)
    whole = await parts.lineage.texts.run(
        caller, lambda: with_columns(parts, actor, caller, answer, asked)
    )
    media_type = shape_of(accept)
    return JsonAnswer(SHAPES[media_type](whole, base), media_type=media_type)


def shape_of(accept: str) -> str:
    """Return the first media type of `Accept` that there is; else the default."""
    for part in accept.split(","):
        name = part.partition(";")[0].strip().lower()
        if name in SHAPES:
            return name
    return next(iter(SHAPES))


def add_why_routes(routes: APIRouter, prefix: str) -> None:
    """Serve provenance below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/why", summary="Why a row is there", tags=tags)(why)
