"""Sending of responses: add the headers that all responses have, record status and size."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.types import Message, Receive, Scope, Send

from .addresses import SOCKET
from .cors import GRANTED, VARY_ORIGIN

TRACE_HEADER = b"x-trace-id"
NOSNIFF = (b"x-content-type-options", b"nosniff")
"""Browsers must trust the content type and not guess one from the bytes."""
ABNORMAL = 1006
"""The close code of a connection that ended without a close frame (RFC 6455)."""


class Sharing(NamedTuple):
    """Who else may get the responses of a node."""

    is_closed: bool = False
    """Whether the node serves callers with a token only: shared caches may keep nothing."""
    grants_origins: bool = True
    """Whether pages of other sites may read responses."""


_PUBLIC, _PRIVATE = b"public", b"private"


class Sending:
    """The ASGI `send` of one request. It adds headers, and records facts of the response."""

    __slots__ = (
        "_added", "_is_closed", "_send", "accepted", "began", "body_bytes", "code", "is_socket",
        "method", "status", "traceparent",
    )  # fmt: skip

    def __init__(self, scope: Scope, send: Send, sharing: Sharing = Sharing()) -> None:
        self._send, self.is_socket = send, scope["type"] == "websocket"
        self.method: str = scope.get("method", SOCKET)
        self.began = time.perf_counter()
        self._added, self._is_closed = [NOSNIFF, VARY_ORIGIN], sharing.is_closed
        self.traceparent = ""
        self.status, self.body_bytes = 0, 0
        """Status and number of body bytes sent; both are 0 until the response begins."""
        self.accepted, self.code = False, ABNORMAL
        for name, value in scope["headers"]:
            if name == b"traceparent":
                self.traceparent = value.decode("latin-1")
            elif name == b"origin" and sharing.grants_origins:
                self._added += GRANTED

    def is_part_of(self, trace: str | None) -> None:
        """Add the trace id to the headers of the response."""
        if trace is not None:
            self._added.append((TRACE_HEADER, trace.encode()))

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.body", "websocket.http.response.body"):
            self.body_bytes += len(message.get("body", b""))
        elif kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            given = message.get("headers", ())
            message["headers"] = [*(map(_kept, given) if self._is_closed else given), *self._added]
        elif kind == "websocket.accept":
            self.status, self.accepted = 101, True
        elif kind == "websocket.close":
            self.code = message.get("code", 1000)
        elif kind == "websocket.send":
            self.body_bytes += len(message.get("text") or message.get("bytes") or "")
        await self._send(message)

    def receive(self, receive: Receive) -> Receive:
        """Return a `receive` that records the close code of a WebSocket connection."""
        if not self.is_socket:
            return receive

        async def noted() -> Message:
            message = await receive()
            if message["type"] == "websocket.disconnect" and self.code == ABNORMAL:
                self.code = message.get("code") or ABNORMAL
            return message

        return noted


def _kept(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return a header of a closed node: no cache but the caller's own may keep the response."""
    name, value = header
    if name.lower() == b"cache-control" and value.startswith(_PUBLIC):
        return name, _PRIVATE + value.removeprefix(_PUBLIC)
    return header
