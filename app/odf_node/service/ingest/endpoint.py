"""POST …/ingest: receive a body, queue it for a worker, wait for the receipt.

The endpoint is plain ASGI in front of the framework, because the framework needs more time for
routing and parameters than it takes to queue a post.

The declaration of the ingest route for the framework; `IngestEndpoint` serves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from odf_storage.stores.ports.values import Job

from ..auth.access import address
from ..auth.actors import Actor
from ..http.addresses import Route, path_of
from ..http.bodies import LIMIT, Body, BodyTooLong, decoded, small_body
from ..http.deps import base_at
from ..http.multipart import OVERHEAD_BYTES, UploadForm
from ..jobs.job_watch import Waiting, accepted, patience_of, receipt_answer
from ..limits.shares import Coalescer, Turns, caller_of
from ..settings import Settings
from ..transfer.routes import in_front
from ..uploads.uploaded_files import FileUploads
from .asked import Asked, IngestQuery, asked_of
from .content import Content, FileOfForm, Post, Posted, Whole, uploaded_content
from .posts import INLINE_BYTES, Posts

REPLAYED = "idempotent-replayed"


class IngestEndpoint:
    """ASGI application. Posts with short bodies that arrive concurrently are queued together."""

    def __init__(
        self, posts: Posts, uploads: FileUploads, waiting: Waiting, settings: Settings, state: State
    ) -> None:
        """`state.bodies` has the turns for reading bodies, `state.watchers` the tasks that clear
        away uploads."""
        self._posts, self._uploads, self._waiting = posts, uploads, waiting
        self._settings, self._state = settings, state
        self._coalescer = Coalescer(posts.take)
        self._short = min(INLINE_BYTES, settings.max_body_bytes)

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes for the table of addresses."""
        return [Route(f"{prefix}/ingest", self, ("POST",))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, asked = Request(scope, receive), asked_of(scope)
        posted = await self._posted(request, asked)
        answer = await self._answer(posted, partial(base_at, self._settings, request), asked.prefer)
        await answer(scope, receive, send)

    async def _posted(self, request: Request, asked: Asked) -> Posted:
        """Queue the job. A short body is read in the event loop, and needs no thread."""
        actor: Actor = request.scope["state"]["actor"]
        path = path_of(request.scope)
        dataset = address(self._settings.tenancy, path.account, path.dataset)
        post = partial(Post, actor=actor, dataset=dataset, request=asked.request)
        if asked.upload_token is not None:
            uploaded = partial(uploaded_content, self._uploads, actor, asked.upload_token)
            return await self._in_turn(request, post(open=uploaded))
        if self._is_short(asked):
            body = await small_body(request, self._short)
            return await self._coalescer.ask(post(open=partial(Whole, body, asked.media_type)))
        limit = self._sent(asked)
        if asked.length is not None and asked.length > limit:
            raise BodyTooLong(self._settings.max_body_bytes, LIMIT)
        async with Body(request.receive, limit=limit, setting=LIMIT) as coming:
            return await self._in_turn(request, post(open=partial(self._arriving, asked, coming)))

    def _is_short(self, asked: Asked) -> bool:
        plain = not (asked.is_form or asked.encoding)
        return plain and asked.length is not None and asked.length <= self._short

    def _sent(self, asked: Asked) -> int:
        """Return the limit of bytes that the client may send."""
        limit = self._settings.max_body_bytes
        return limit + OVERHEAD_BYTES if asked.is_form else limit

    def _arriving(self, asked: Asked, body: Body) -> Content:
        """Return the content of a body that still arrives. Raises `UnsupportedEncoding`,
        `NotTheUploadForm`."""
        ratio, limit = self._settings.max_unpacked_ratio, self._sent(asked)
        chunks = decoded(body.chunks(), asked.encoding, limit=limit, ratio=ratio)
        if asked.is_form:
            form = UploadForm(asked.media_type or "", any_name=True)
            return FileOfForm(form, chunks, self._settings.max_body_bytes)
        return Content(chunks, asked.media_type)

    async def _in_turn(self, request: Request, post: Post) -> Posted:
        """Queue the job of a post whose body is read in a separate thread."""
        bodies: Turns = self._state.bodies
        return await bodies.run(caller_of(request.scope), partial(self._posts.take_one, post))

    async def _answer(self, posted: Posted, base: Callable[[], str], prefer: str) -> Response:
        """Wait for the job and return its receipt, or, when patience ends, 202 with the URL of
        the job below `base`."""
        ended = await self._posts.ended(
            posted, self._waiting, patience_of(prefer, self._waiting.most_s)
        )
        if ended is None and posted.upload is not None:  # the upload must be deleted all the same
            watcher = asyncio.create_task(self._posts.ended(posted, self._waiting, None))
            watchers: set[asyncio.Task[Job | None]] = self._state.watchers
            watchers.add(watcher)
            watcher.add_done_callback(watchers.discard)
        answer = accepted(posted.job, base()) if ended is None else receipt_answer(ended)
        if posted.repeated:
            answer.headers[REPLAYED] = "true"
        return answer


def add_ingest(router: APIRouter, prefix: str) -> None:
    """Declare the ingest route below the dataset addresses."""
    router.post(prefix + "/ingest", summary="Post records to a push source", tags=["ingest"])(
        ingest
    )


async def ingest(
    query: Annotated[IngestQuery, Query()],  # noqa: ARG001
    event_time: Annotated[str | None, Header(alias="odf-event-time")] = None,  # noqa: ARG001
    idempotency_key: Annotated[str | None, Header(alias="idempotency-key")] = None,  # noqa: ARG001
    prefer: Annotated[str, Header()] = "",  # noqa: ARG001
) -> Response:
    """Return the receipt once the batch is committed, 202 with the job if that takes too long."""
    return await in_front()
