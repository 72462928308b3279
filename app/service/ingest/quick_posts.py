"""The shortest way in for what is posted most: small bodies to the only source, nothing else asked.

Stands behind the gate and in front of the framework, which takes longer to find the route and
to read its parameters than the post takes to be queued. Posts that come together are queued
together. Only requests without parameters, with
a short plain body, go this way; the rest takes the long way behind it, to the same functions
and the same answers.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from anyio import to_thread
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from odf_node.storage.datasets.node.naming import RESERVED

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.addresses import Route, path_of
from ..http.deps import base_at
from ..http.request_keys import parse_key
from ..limits.coalescer import Coalescer
from ..settings import Settings
from .ingest import INLINE_BYTES, Content, IngestRequest, Posted, post
from .routes import FORM, IngestEndpoint, answer_of, at_once
from .small_posts import SmallPost, SmallPosts

LAST = "ingest"
_ASKED = frozenset((b"content-type", b"content-length", b"idempotency-key", b"prefer"))
"""What this way understands, said once."""
_LONG_WAY = frozenset((b"content-encoding", b"transfer-encoding", b"odf-event-time", b"expect"))
_Address = tuple[str | None, str]
"""Account and dataset as the path has them."""


class QuickPosts:
    """ASGI application: queues plain small posts itself, leaves the rest to the framework."""

    def __init__(
        self,
        api: FastAPI,
        small_posts: SmallPosts,
        endpoint: IngestEndpoint,
        access: DatasetAccess,
        settings: Settings,
    ) -> None:
        self.api, self.endpoint = api, endpoint
        self.access, self.settings = access, settings
        self.coalescer = Coalescer(small_posts.take)
        self.most = min(INLINE_BYTES, settings.max_body_bytes)

    def routes(self, prefix: str) -> list[Route]:
        """The row of the table of addresses."""
        return [Route(f"{prefix}/{LAST}", self, ("POST",))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = None
        if not scope["query_string"] and scope["path"].split("/")[1] not in RESERVED:
            told = _told(scope, self.most)
        if told is None:
            await self.api(scope, receive, send)
            return
        account, name, *_ = path_of(scope)
        await self._take((account, name), told, scope, receive, send)

    async def _take(
        self, address: _Address, told: dict[bytes, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        endpoint, state = self.endpoint, self.api.state
        actor: Actor = scope["state"]["actor"]
        request = Request(scope, receive)
        key = parse_key(told.get(b"idempotency-key"))
        body, media_type = await at_once(request), told.get(b"content-type")
        if key is None:
            account, name = address
            asked = SmallPost(
                actor=actor, account=account, name=name, media_type=media_type, body=body
            )
            posted = await self.coalescer.ask(asked)
        else:
            given = (actor, address, IngestRequest(key=key), Content([body], media_type))
            posted = await to_thread.run_sync(self._post, *given, limiter=state.posts)
        base, prefer = partial(base_at, self.settings, request), told.get(b"prefer", "")
        answer = await answer_of(posted, endpoint, state.watchers, base, prefer)
        await answer(scope, receive, send)

    def _post(
        self, actor: Actor, address: _Address, asked: IngestRequest, content: Content
    ) -> Posted:
        entry = self.access.resolve_open(actor, *address)
        return post(self.endpoint.ingesting, actor, entry, asked, content)


def _told(scope: Scope, most: int) -> dict[bytes, str] | None:
    """Headers this way understands; None if others change the answer, or the body is too long."""
    found = [(name, value) for name, value in scope["headers"] if name in _ASKED]
    if any(name in _LONG_WAY for name, _ in scope["headers"]):
        return None
    if found and max(Counter(name for name, _ in found).values()) > 1:
        return None
    told = {name: value.decode("latin-1") for name, value in found}
    length = told.get(b"content-length", "")
    if not length.isdigit() or len(length) > 9 or int(length) > most:
        return None
    return None if told.get(b"content-type", "").lower().startswith(FORM) else told
