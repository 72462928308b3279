"""Sending of responses: add the headers that all responses have, record status and size.

Compression of answers: texts of some length, for clients that ask for gzip.

Never compressed are slices, blocks and other bytes, ranges, answers with a strong entity tag,
which names bytes, and streams of events. Nor is what a browser gets that sends a cookie: a page
with a secret and with texts of a stranger would tell the secret by its length (BREACH).

CORS: the requests that pages of other sites may send, and the headers that say so.

Every origin is allowed. This does no harm, because no request is authorized by cookies. On a node
where everybody reads private datasets, the place in the network is what authorizes a visitor, and
every page in the visitor's browser has the same place. There no origin is allowed, and a request
has to name the node by a name that no stranger can point at it (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import time
import zlib
from typing import NamedTuple
from urllib.parse import urlsplit

import re2
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from .addresses import SOCKET
from .answers import WEAK

LEVEL = 4
"""A higher level takes much longer for little."""
GZIP_BITS = 31
IN_THREAD_BYTES = 1 << 15
"""Longer pieces are compressed in a thread, so that the event loop goes on."""
ACCEPT, COOKIE = b"accept-encoding", b"cookie"
VARY = (b"vary", b"Accept-Encoding")
_TEXTS = re2.compile(
    r"(?:text/(?:html|css|javascript|plain|csv|xml|markdown|turtle)|image/svg\+xml"
    r"|application/(?:[a-z0-9.-]+\+)?(?:json|xml|yaml|javascript|x-ndjson|n-triples|rdf))(?:;.*)?"
)
_TAKEN = re2.compile(r"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*(?:1|0?\.0*[1-9])[0-9.]*\s*)?(?:,|$)")
_AS_IT_IS = frozenset((b"content-encoding", b"content-range", b"set-cookie"))
_LENGTH = b"content-length"


def takes_gzip(accept_encoding: bytes) -> bool:
    """Return whether a request accepts gzip, by its header."""
    return _TAKEN.search(accept_encoding.decode("latin-1").lower()) is not None


class Gzip:
    """Compresses the body of one answer. Each piece is flushed, so that it arrives when it is
    sent."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_BITS)

    async def packed(self, message: Message) -> Message:
        """Return the message of a body with its piece compressed."""
        body, more = message.get("body", b""), message.get("more_body", False)
        if len(body) >= IN_THREAD_BYTES:
            piece = await to_thread.run_sync(self._pack, body, more)
        else:
            piece = self._pack(body, more)
        return {**message, "body": piece}

    def _pack(self, body: bytes, more: bool) -> bytes:
        piece = self._packer.compress(body)
        if more and not body:
            return piece
        return piece + self._packer.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)


def is_text(status: int, headers: list[tuple[bytes, bytes]], least: int) -> bool:
    """Return whether an answer may be compressed: a text of at least so many bytes."""
    if status != 200:
        return False
    kind = b""
    for name, value in headers:
        low = name.lower()
        if low in _AS_IT_IS or (low == _LENGTH and int(value) < least):
            return False
        if low == b"etag" and not value.startswith(WEAK):
            return False
        if low == b"content-type":
            kind = value
    return _TEXTS.fullmatch(kind.decode("latin-1").lower()) is not None


def as_gzip(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a compressed answer."""
    kept = [pair for pair in headers if pair[0].lower() != _LENGTH]
    return [*kept, (b"content-encoding", b"gzip")]


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""Allowed methods. The reference allows GET and POST only."""
EXPOSED = (
    "ETag",
    "Location",
    "Retry-After",
    "Content-Range",
    "Accept-Ranges",
    "Upload-Offset",
    "Idempotent-Replayed",
    "ODF-Block",
    "ODF-Inputs",
    "ODF-Slices",
    "X-Trace-Id",
)
VARY_ORIGIN = (b"vary", b"Origin")
GRANTED = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", ", ".join(EXPOSED).encode()),
]
"""Headers of every response to a request with an `Origin` header."""
_RULES = CORSMiddleware(
    lambda *_: None,  # type: ignore[arg-type]
    allow_origins=["*"],
    allow_methods=METHODS,
    allow_headers=["*"],
    expose_headers=EXPOSED,
)


def is_own_host(scope: Scope, public_url: str | None) -> bool:
    """Return whether the `Host` of a request is an address, a name without a dot, a name below
    `localhost`, or the host of the node's public URL. Strangers own no such names."""
    for name, value in scope["headers"]:
        if name == b"host":
            host = urlsplit("//" + value.decode("latin-1")).hostname or ""
            own = None if public_url is None else urlsplit(public_url).hostname
            return "." not in host or host.endswith(".localhost") or host == own or _is_ip(host)
    return True


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def preflight_answer(scope: Scope) -> Response | None:
    """Return the response to a CORS preflight request; None for any other request."""
    if scope.get("method") != "OPTIONS":
        return None
    headers = Headers(scope=scope)
    if "origin" not in headers or "access-control-request-method" not in headers:
        return None
    answer = _RULES.preflight_response(headers)
    for name, _ in GRANTED:  # `Sending` adds these headers to every response
        del answer.headers[name.decode()]
    return answer


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
