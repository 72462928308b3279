"""Addresses as they were sent: a slash that came encoded divides nothing, so it is refused.

The server hands on decoded paths, in which `/account%2fname/tail` looks like three segments; what
stands in front of the node, and judges addresses by their segments, sees two.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from ..auth.access import MalformedAddress
from .answers import error_answer

ENCODED_SLASHES = (b"%2f", b"%5c")


class PlainPaths:
    """ASGI middleware: lets plain paths through, and answers 400 to the others."""

    def __init__(self, inner: ASGIApp) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_plain(scope):
            await self.inner(scope, receive, send)
            return
        answer = error_answer(MalformedAddress("an address has no encoded slashes"))
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(answer)
        else:
            await answer(scope, receive, send)


def is_plain(scope: Scope) -> bool:
    """Whether the segments of the decoded path are those that were sent."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return True
    lowered = raw.lower()
    return not any(slash in lowered for slash in ENCODED_SLASHES)
