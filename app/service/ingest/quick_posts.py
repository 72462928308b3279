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
from types import SimpleNamespace

from anyio import to_thread
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.deps import base_at
from ..http.request_keys import parse_key
from ..limits.coalescer import Coalescer
from ..settings import Settings, Tenancy
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
    """ASGI application: queues plain small posts itself, leaves the rest to `inner`."""

    def __init__(
        self,
        inner: ASGIApp,
        api: FastAPI,
        small_posts: SmallPosts,
        endpoint: IngestEndpoint,
        access: DatasetAccess,
        settings: Settings,
        prefix: str,
        first_words: frozenset[str],
    ) -> None:
        self.inner, self.api, self.endpoint = inner, api, endpoint
        self.access, self.settings = access, settings
        self.route = SimpleNamespace(path=f"{prefix}/{LAST}")
        self.first_words = first_words
        self.coalescer = Coalescer(small_posts.take)
        self.most = min(INLINE_BYTES, settings.max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            address, told = self._address(scope), _told(scope, self.most)
            if address is not None and told is not None:
                scope["route"] = self.route  # by which it is counted and audited
                await self._take(address, told, scope, receive, send)
                return
        await self.inner(scope, receive, send)

    def _address(self, scope: Scope) -> _Address | None:
        if scope["query_string"] or scope.get("root_path"):
            return None
        parts = scope["path"].split("/")
        is_single = self.settings.tenancy is Tenancy.SINGLE
        if len(parts) != (3 if is_single else 4) or parts[0] or parts[-1] != LAST:
            return None
        if not all(parts[1:]) or parts[1] in self.first_words:
            return None
        return (None if is_single else parts[1]), parts[-2]

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
