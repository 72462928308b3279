"""Serve the application on a socket: uvicorn with the options that our protocols need.

Smart transfer forbids WebSocket pings and compression. Two protocol classes, `PatientHttp` here and
that of `transfer/server_socket.py`, limit headers and messages.

A client may be slow between requests (keep-alive) and within a body. But a client that sends a
header byte by byte, or connects and sends nothing, would occupy a connection for ever. An endless
header would occupy memory, because the parser keeps a line until it is complete. So we count all
bytes outside of bodies, including trailers and chunk headers. We count trailers and drop them: a
header that a proxy has not checked must have no effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from odf_protocol.errors import LimitExceeded

from ..errors import problem_of, status_of
from ..http.answers import PROBLEM_JSON
from ..settings import Settings
from ..transfer.server_socket import TransferSocket

LINGER_S = 0.5
"""Seconds until we close the connection of a refused request."""
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class PatientHttp(HttpToolsProtocol):
    """HTTP protocol that limits the size and the time of headers.

    A header must be complete `header_wait_s` seconds after its first byte; the first header of a
    connection, after the connection was made.
    """

    header_wait_s = 30.0
    max_url_bytes = 64 * 1024
    """More: 414."""
    max_header_bytes = 64 * 1024
    """Bytes of header lines, trailers included; more: 431."""
    max_headers = 128
    """Header lines, trailers included; more: 431."""
    max_waiting_requests = 100
    """Requests of a connection that wait for the answer to an earlier one; more: it is closed."""
    _waiting: asyncio.TimerHandle | None = None
    _in_header = True
    _refusal: LimitExceeded | None = None
    _lines = _line_bytes = 0
    """Header lines and their bytes in the current request, trailers included."""
    _unplaced = 0
    """Bytes since the last callback of the parser, which it keeps in memory."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._cycles: deque[RequestResponseCycle] = deque()
        """Requests without a whole response: the first is served, the others wait for it. Our base
        knows the last one only."""
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        for each in self._cycles:
            if not each.response_complete:
                each.disconnected = True  # what it sends from now on goes nowhere
                each.message_event.set()
        self._cycles.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._unplaced += len(data)
        super().data_received(data)
        if self._unplaced > self.max_header_bytes and not self._is_over():
            self._refusal = self._too_long()
            self.send_400_response("")
        if self._in_header and self._waiting is None and self._refusal is None:
            self._wait()

    def on_message_begin(self) -> None:
        self._in_header = True
        self._lines = self._line_bytes = self._unplaced = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._unplaced = 0
        super().on_url(url)
        if len(self.url) > self.max_url_bytes:
            limit = self.max_url_bytes
            message = f"the address is longer than the {limit} bytes taken here"
            self._refuse(LimitExceeded("UrlTooLong", message, limit=limit))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._unplaced = 0
        self._lines += 1
        self._line_bytes += len(name) + len(value)
        if self._lines > self.max_headers or self._line_bytes > self.max_header_bytes:
            self._refuse(self._too_long())
        if self._in_header:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_header, self._unplaced = False, 0
        self._wait_no_more()
        super().on_headers_complete()
        if self._pending() and self._cycles[-1] is self.cycle:
            return  # an upgrade
        if len(self._cycles) > self.max_waiting_requests:
            raise ValueError("more requests wait for their answers than a connection may have")
        if self.cycle is not None:
            self._cycles.append(self.cycle)

    def on_chunk_header(self) -> None:
        self._unplaced = 0

    def on_body(self, body: bytes) -> None:
        self._unplaced = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unplaced = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP, or to a refused request, and end the connection."""
        self._wait_no_more()
        if self._refusal is None:
            if self._may_answer():
                super().send_400_response(msg)
            else:
                self.transport.close()
            return
        if self._may_answer():
            self.transport.write(_answer(self._refusal))
        # If we closed at once with unread bytes, the client would get a reset and lose the answer.
        self.transport.pause_reading()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _is_over(self) -> bool:
        return self._refusal is not None or self.transport.is_closing()

    def _may_answer(self) -> bool:
        """Return whether a response now would not overlap or precede that of an earlier request."""
        if not self._pending():
            return True
        is_first = len(self._cycles) == 1 and not self._in_header
        return is_first and not self._cycles[0].response_started

    def _pending(self) -> bool:
        """Return whether a request has no whole response yet."""
        while self._cycles and self._cycles[0].response_complete:
            self._cycles.popleft()
        return bool(self._cycles)

    def _too_long(self) -> LimitExceeded:
        return LimitExceeded(
            "HeaderTooLong",
            f"a request has {self.max_headers} header lines at most, of {self.max_header_bytes} "
            "bytes in sum",
            limit=self.max_header_bytes,
        )

    def _refuse(self, refusal: LimitExceeded) -> None:
        """Raise from a callback of the parser, which ends with the error."""
        self._refusal = refusal
        raise refusal

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.header_wait_s, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()


def _answer(refusal: LimitExceeded) -> bytes:
    """Return a complete response with the problem document, as bytes."""
    status: HTTPStatus = status_of(refusal)
    body = msgspec.json.encode(problem_of(refusal))
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: {PROBLEM_JSON}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


KEEP_ALIVE_S = 30
BACKLOG = 2048


def server_config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """Return uvicorn's options. Only None disables pings, which its command line cannot express."""
    most = {"push_message_bytes": settings.ws_max_message_bytes}
    websocket = type("NodeWebSocket", (TransferSocket,), most)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=PatientHttp,
        ws=websocket,
        ws_max_size=settings.ws_max_message_bytes,
        ws_ping_interval=None,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_s,
        backlog=BACKLOG,
    )


class NodeServer(uvicorn.Server):
    """uvicorn's server that reports when it listens, and on which port."""

    on_listening: Any = None
    on_stopping: Any = None
    """Called before the server waits for open requests."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and self.on_listening is not None:
            self.on_listening(self.port)

    async def shutdown(self, sockets: Any = None) -> None:
        if self.on_stopping is not None:
            self.on_stopping()
        await super().shutdown(sockets=sockets)

    @property
    def port(self) -> int:
        """The port on which the server listens, also if the system has chosen it."""
        for server in self.servers:
            for socket in server.sockets:
                return int(socket.getsockname()[1])
        return self.config.port
