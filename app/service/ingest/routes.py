"""POST …/ingest: take a body, hand it to a worker, wait for the receipt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_node.storage.datasets.job_payloads.ingest_job import OnBadRows
from odf_node.storage.stores.ports.values import DatasetEntry, Job

from ..auth.actors import Actor
from ..auth.upload_tokens import MAX_CHARS
from ..http.bodies import LIMIT, Body, BodyTooLong, small_body
from ..http.deps import ActorDep, BaseDep, OpenDep, wired
from ..http.encodings import decoded
from ..http.media_types import media_type_of
from ..http.multipart import OVERHEAD_BYTES, UploadForm
from ..http.request_keys import parse_key
from ..jobs.waiting import Waiting, accepted, patience_of, receipt_answer
from ..limits.shares import caller_of
from ..uploads.uploaded_files import FileUploads
from .ingest import INLINE_BYTES, Content, Ingesting, IngestRequest, Posted, post
from .ingest_files import post_uploaded

FORM = "multipart/form-data"
REPLAYED = "idempotent-replayed"


@dataclass(frozen=True)
class IngestEndpoint:
    """What posts are queued with, how large they may be, and how their jobs are waited for."""

    ingesting: Ingesting
    uploads: FileUploads
    waiting: Waiting
    max_bytes: int
    max_unpacked_ratio: int


EndpointDep = Annotated[IngestEndpoint, Depends(wired(IngestEndpoint))]


def add_ingest(router: APIRouter, prefix: str) -> None:
    """Serve ingest below the dataset addresses."""
    router.post(prefix + "/ingest", summary="Post records to a push source", tags=["ingest"])(
        ingest
    )


async def ingest(
    request: Request,
    endpoint: EndpointDep,
    actor: ActorDep,
    entry: OpenDep,
    base: BaseDep,
    source_name: Annotated[str | None, Query(alias="sourceName", max_length=1000)] = None,
    upload_token: Annotated[str | None, Query(alias="uploadToken", max_length=MAX_CHARS)] = None,
    expected_head: Annotated[str | None, Query(alias="expectedHead", max_length=200)] = None,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
    max_vanish_percent: Annotated[int | None, Query(alias="maxVanishPercent", ge=0, le=100)] = None,
    on_bad_rows: Annotated[OnBadRows, Query(alias="onBadRows")] = "fail",
    max_bad_rows: Annotated[int | None, Query(alias="maxBadRows", ge=1)] = None,
    event_time: Annotated[str | None, Header(alias="odf-event-time")] = None,
    idempotency_key: Annotated[str | None, Header(alias="idempotency-key")] = None,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """The receipt once the batch is in, 202 with the job if that takes too long."""
    asked = IngestRequest(
        source_name=source_name,
        event_time=event_time,
        expected_head=expected_head,
        dry_run=dry_run,
        max_vanish_percent=max_vanish_percent,
        on_bad_rows=on_bad_rows,
        max_bad_rows=max_bad_rows,
        key=parse_key(idempotency_key),
    )
    posted = await _posted(request, endpoint, (actor, entry, asked), upload_token)
    return await answer_of(posted, endpoint, request.app.state.watchers, lambda: base, prefer)


async def answer_of(
    posted: Posted,
    endpoint: IngestEndpoint,
    watchers: set[asyncio.Task[Job | None]],
    base: Callable[[], str],
    prefer: str,
) -> Response:
    """The receipt of a batch that has a job, or where to look for it, below `base`."""
    ended = await _ended(endpoint, posted, patience_of(prefer, endpoint.waiting.most_s))
    if ended is None:
        _go_on(watchers, endpoint, posted)
    answer = accepted(posted.job, base()) if ended is None else receipt_answer(ended)
    if posted.repeated:
        answer.headers[REPLAYED] = "true"
    return answer


async def _ended(endpoint: IngestEndpoint, posted: Posted, patience: float | None) -> Job | None:
    """The job once it has ended, and its upload is cleared away; None if that takes too long."""
    ended = await endpoint.waiting.watch.ended(posted.job, patience)
    if ended is not None and posted.upload is not None:
        await run_in_threadpool(endpoint.ingesting.uploads.done_with, posted.upload)
    return ended


def _go_on(
    watchers: set[asyncio.Task[Job | None]], endpoint: IngestEndpoint, posted: Posted
) -> None:
    """Nobody waits any more, but the upload is to be cleared away."""
    if posted.upload is not None:
        task = asyncio.create_task(_ended(endpoint, posted, None))
        watchers.add(task)
        task.add_done_callback(watchers.discard)


_Asked = tuple[Actor, DatasetEntry, IngestRequest]


async def _posted(
    request: Request, endpoint: IngestEndpoint, asked: _Asked, upload_token: str | None
) -> Posted:
    """The job. What is here already, or is short, waits for no thread that reads a body."""
    state, ingesting = request.app.state, endpoint.ingesting
    headers, limit = request.headers, endpoint.max_bytes
    media_type, encoding = headers.get("content-type"), headers.get("content-encoding", "")
    announced = headers.get("content-length", "")
    is_form = (media_type or "").lower().startswith(FORM)
    sent = limit + OVERHEAD_BYTES if is_form else limit
    if upload_token is not None:
        work = partial(post_uploaded, ingesting, endpoint.uploads, *asked, upload_token)
        return cast("Posted", await state.bodies.run(caller_of(request.scope), work))
    if announced.isdigit() and int(announced) > sent:
        raise BodyTooLong(limit, LIMIT)
    if announced.isdigit() and int(announced) <= INLINE_BYTES and not (is_form or encoding):
        whole = Content([await at_once(request)], media_type)
        return await to_thread.run_sync(post, ingesting, *asked, whole, limiter=state.posts)
    async with Body(request.receive, limit=sent, setting=LIMIT) as body:
        ratio = endpoint.max_unpacked_ratio
        chunks = decoded(body.chunks(), encoding, limit=sent, ratio=ratio)
        content = Content(chunks, media_type)
        if is_form:
            content = _Form(UploadForm(media_type or "", any_name=True), chunks, limit)
        work = partial(post, ingesting, *asked, content)
        return cast("Posted", await state.bodies.run(caller_of(request.scope), work))


async def at_once(request: Request) -> bytes:
    """A body that is small, without a thread in between."""
    return await small_body(request, INLINE_BYTES)


class _Form(Content):
    """The file of a form. Its headers, or its name, say what it is."""

    def __init__(self, form: UploadForm, chunks: Iterable[bytes], limit: int) -> None:
        super().__init__(self._read(form, chunks, limit), None)

    def _read(self, form: UploadForm, chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
        size = 0
        for piece in form.file(chunks):
            size += len(piece)
            if size > limit:
                raise BodyTooLong(limit, LIMIT)
            yield piece
        self.media_type = media_type_of(form.content_type, form.file_name)
