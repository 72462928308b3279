"""The first thing a request meets: who asks, and are they let in at all.

Puts the actor into `scope["state"]` for everything behind it, HTTP and WebSocket alike, so
that a malformed credential is refused before anything else is looked at.
"""

from __future__ import annotations

import logging

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from odf_node.protocol.errors import NodeError
from odf_node.storage.runtime.context import add_facts

from ..auth.access import admit
from ..auth.actors import ANONYMOUS, Actor, bearer_of
from ..auth.callers import Callers
from ..limits.coalescer import Coalescer
from ..settings import Settings
from .answers import TRANSFER, crash_answer, error_answer
from .bodies import Paced

OPEN_TO_ALL = frozenset(
    {
        "/platform/login",
        "/ui-config",
        "/system/health",
        "/system/metrics",
        "/system/info",
        "/openapi",
        "/openapi.json",
        "/assets/runtime-config.json",
        "/v/login",
    }
)
"""Paths that a node without anonymous access still serves to everybody."""
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests whose body nobody reads."""
OPEN_FOLDER = "/platform/token/"

_log = logging.getLogger("odf.node")


class Gate:
    """ASGI middleware: identifies the caller or ends the request."""

    def __init__(self, inner: ASGIApp, callers: Callers, settings: Settings) -> None:
        self.inner, self.settings = inner, settings
        self.coalescer = Coalescer(callers.identify_all)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.inner(scope, receive, send)
            return
        watched = _Watched(send)
        state = scope.setdefault("state", {})
        if scope["type"] == "websocket":
            state[TRANSFER] = True
        try:
            state["actor"] = await self._actor(scope)
            if scope["type"] == "http" and scope["method"] not in BODILESS:
                receive = Paced(receive, self.settings)
            await self.inner(scope, receive, watched)
        except NodeError as error:
            answer = error_answer(error, explained=TRANSFER not in scope["state"])
            await _refuse(answer, scope, receive, watched)
        except Exception:
            if watched.started:
                raise
            _log.exception("request crashed: %s %s", scope.get("method", "WS"), scope["path"])
            await _refuse(crash_answer(), scope, receive, watched)

    async def _actor(self, scope: Scope) -> Actor:
        bearer = bearer_of(scope["headers"])
        actor = ANONYMOUS
        if bearer is not None:
            actor = await self.coalescer.ask(bearer)
            add_facts(actor=actor.account.name if actor.account else None)
        path = scope["path"]
        if path not in OPEN_TO_ALL and not path.startswith(OPEN_FOLDER):
            admit(actor, allow_anonymous=self.settings.allow_anonymous)
        return actor


class _Watched:
    """Remembers whether an answer has begun: then it is too late for another one."""

    def __init__(self, send: Send) -> None:
        self._send, self.started = send, False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


async def _refuse(answer: Response, scope: Scope, receive: Receive, send: _Watched) -> None:
    if send.started:
        _log.error("answer broke off: %s", scope["path"])
        raise ConnectionAbortedError("the answer broke off")
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    await WebSocket(scope, receive, send).send_denial_response(answer)
