"""Dispatch of every request: find the route, identify the actor, serve, report errors.

A path with an encoded slash is refused. The server passes on decoded paths, in which
`/account%2fname/tail` has three segments; a proxy in front of the node, which may filter
addresses by their segments, sees two.
"""

from __future__ import annotations

import logging

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from odf_protocol.errors import NodeError, Refused

from ..auth.access import MalformedAddress
from ..setting_groups.words import AnonymousReads
from ..settings import Settings
from .addresses import SOCKET, Addresses
from .answers import HEADERS_ONLY, crash_answer, error_answer, not_found_answer
from .authentication import Authentication
from .bodies import Paced
from .cors import is_own_host, preflight_answer
from .peer_errors import error_answer_for
from .sending import Sending

ENCODED_SLASHES = (b"%2f", b"%5c")
BODILESS = frozenset({"GET", "HEAD", "OPTIONS", SOCKET})
"""Methods of requests whose body is never read."""
_log = logging.getLogger("odf.node")


class ForeignHost(Refused):
    """Everybody who reaches the node reads private datasets, and the request names it by a host
    that may be a stranger's."""

    def __init__(self) -> None:
        super().__init__(
            "this node gives private datasets to everybody who reaches it, so it answers to its "
            "addresses and to the host of ODF_NODE_PUBLIC_URL only, not to other names"
        )


class Dispatch:
    """ASGI application inside `Observed`. The framework, `rest`, serves all addresses that the
    table does not contain."""

    def __init__(
        self,
        addresses: Addresses,
        rest: ASGIApp,
        authentication: Authentication,
        settings: Settings,
    ) -> None:
        self._addresses, self._rest, self._authentication = addresses, rest, authentication
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Sending) -> None:
        if not is_plain(scope):
            refused = error_answer(MalformedAddress("an address has no encoded slashes"))
            await _answer(refused, scope, receive, send)
            return
        try:
            await self._serve(scope, receive, send)
        except NodeError as error:
            answer = error_answer_for(scope, error, explained=not _is_transfer(scope))
            await _refuse(answer, scope, receive, send)
        except Exception:
            if send.status:
                raise
            _log.exception("request crashed: %s %s", scope.get("method", SOCKET), scope["path"])
            await _refuse(crash_answer(), scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        preflight = None
        if self._settings.anonymous_reads is not AnonymousReads.ALL:
            preflight = preflight_answer(scope)
        elif not is_own_host(scope, self._settings.public_url):
            raise ForeignHost
        if preflight is not None:
            await preflight(scope, receive, send)
            return
        # Before any branch: no route reads a body that has neither pace nor end.
        if scope.get("method", SOCKET) not in BODILESS:
            receive = Paced(receive, self._settings.client_idle_s)
        state = scope.setdefault("state", {})
        route, state["path"] = self._addresses.find(scope)
        if route is not None:
            scope["route"] = route
            if route.is_page:
                await route.serve(scope, receive, send)
                return
        state["actor"] = await self._authentication.actor(scope)
        if route is not None:
            await route.serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await _answer(not_found_answer(), scope, receive, send)
        else:
            await self._by_framework(scope, receive, send)

    async def _by_framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve HEAD as a GET whose body is dropped, because the framework has no HEAD."""
        if scope["method"] == "HEAD":
            scope["state"][HEADERS_ONLY] = True
            scope, send = {**scope, "method": "GET"}, _headless(send)
        await self._rest(scope, receive, send)


def is_plain(scope: Scope) -> bool:
    """Return whether the decoded path has the same segments as the path that was sent."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return True
    lowered = raw.lower()
    return not any(slash in lowered for slash in ENCODED_SLASHES)


def _is_transfer(scope: Scope) -> bool:
    """Return whether the transfer protocols prescribe the form of errors."""
    return scope["type"] == "websocket" or getattr(scope.get("route"), "is_transfer", False)


async def _refuse(answer: Response, scope: Scope, receive: Receive, send: Sending) -> None:
    if send.status:
        _log.error("answer broke off: %s", scope["path"])
        raise ConnectionAbortedError("the answer broke off")
    await _answer(answer, scope, receive, send)


async def _answer(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    await WebSocket(scope, receive, send).send_denial_response(answer)


def _headless(send: Send) -> Send:
    """Return a `send` that drops the body, for responses to HEAD."""

    async def only_start(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return only_start
