"""Sending of responses: add the headers that all responses have, record status and size."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.types import Message, Receive, Scope, Send

from .addresses import SOCKET
from .compressing import ACCEPT, COOKIE, VARY, Gzip, as_gzip, is_text, takes_gzip
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
    compresses_from: int = 0
    """Length in bytes from which texts are compressed; 0: none is."""


_PUBLIC, _PRIVATE = b"public", b"private"


class Sending:
    """The ASGI `send` of one request. It adds headers, and records facts of the response."""

    __slots__ = (
        "_accept", "_added", "_gzip", "_is_closed", "_least", "_send", "accepted", "began",
        "body_bytes", "code", "is_socket", "method", "status", "traceparent",
    )  # fmt: skip

    def __init__(self, scope: Scope, send: Send, sharing: Sharing = Sharing()) -> None:
        self._send, self.is_socket = send, scope["type"] == "websocket"
        self.method: str = scope.get("method", SOCKET)
        self.began = time.perf_counter()
        self._added, self._is_closed = [NOSNIFF, VARY_ORIGIN], sharing.is_closed
        self._least = sharing.compresses_from
        self._gzip: Gzip | None = None
        self._accept, has_cookie = b"", False
        self.traceparent = ""
        self.status, self.body_bytes = 0, 0
        """Status and number of body bytes sent; both are 0 until the response begins."""
        self.accepted, self.code = False, ABNORMAL
        for name, value in scope["headers"]:
            if name == b"traceparent":
                self.traceparent = value.decode("latin-1")
            elif name == b"origin" and sharing.grants_origins:
                self._added += GRANTED
            elif name == ACCEPT:
                self._accept = value
            elif name == COOKIE:
                has_cookie = True
        if has_cookie or self.method == "HEAD":
            self._accept = b""

    def is_part_of(self, trace: str | None) -> None:
        """Add the trace id to the headers of the response."""
        if trace is not None:
            self._added.append((TRACE_HEADER, trace.encode()))

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if self._gzip is not None and kind == "http.response.body":
            message = await self._gzip.packed(message)
        if kind in ("http.response.body", "websocket.http.response.body"):
            self.body_bytes += len(message.get("body", b""))
        elif kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            given = message.get("headers", ())
            headers = [*map(_kept, given)] if self._is_closed else [*given]
            if self._least and kind == "http.response.start":
                headers = self._as_accepted(headers)
            message["headers"] = [*headers, *self._added]
        elif kind == "websocket.accept":
            self.status, self.accepted = 101, True
        elif kind == "websocket.close":
            self.code = message.get("code", 1000)
        elif kind == "websocket.send":
            self.body_bytes += len(message.get("text") or message.get("bytes") or "")
        await self._send(message)

    def _as_accepted(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the headers of the response; begin to compress it if that helps the client."""
        if not is_text(self.status, headers, self._least):
            return headers
        if self._accept and takes_gzip(self._accept):
            self._gzip = Gzip()
            headers = as_gzip(headers)
        return [*headers, VARY]

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
