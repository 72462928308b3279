"""The byte-serving path: GET and HEAD of refs, blocks, data and checkpoints, and PUT of objects.

Stands in front of the framework, because routing would cost more than reading a block.
Bytes go out verbatim and uncompressed, in reads of 1 MiB; hash-addressed answers carry
a length, a strong ETag and may be kept forever.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..auth.actors import Actor
from ..usecases.objects import (
    StoredObject,
    announced_size,
    find_object,
    read_ref,
    store_object,
    upload_target,
)
from ..wiring import Node
from .bodies import CHUNK_BYTES, Body
from .object_path import KINDS, REFS, ObjectPath
from .ranges import Unsatisfiable, parse_range

MAX_UPLOADS = 32
"""Bodies received at once; each holds a thread while it arrives."""


class ObjectPaths:
    """ASGI application: answers object paths itself, leaves the rest to `inner`."""

    def __init__(self, inner: ASGIApp, node: Node) -> None:
        self.inner, self.node = inner, node
        self.uploads = CapacityLimiter(MAX_UPLOADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        path = None
        if scope["type"] == "http" and method in ("GET", "HEAD", "PUT"):
            path = ObjectPath.of(scope["path"], self.node.settings.tenancy)
        if path is None or (method == "PUT" and path.folder not in ("data", "checkpoints")):
            await self._leave(scope, receive, send)
        elif method == "PUT":
            await self._put(path, scope, receive, send)
        elif path.folder == REFS:
            await self._ref(path, scope, receive, send)
        else:
            await self._read(path, scope, receive, send)

    async def _leave(self, scope: Scope, receive: Receive, send: Send) -> None:
        """To the framework, which knows no HEAD: it is a GET whose body is dropped."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _headless(send)
        await self.inner(scope, receive, send)

    async def _ref(self, path: ObjectPath, scope: Scope, receive: Receive, send: Send) -> None:
        head = await to_thread.run_sync(
            read_ref, self.node, _actor(scope), path.account, path.dataset, path.name
        )
        answer = PlainTextResponse(str(head), headers={"cache-control": "no-cache"})
        await answer(scope, receive, _headless(send) if scope["method"] == "HEAD" else send)

    async def _read(self, path: ObjectPath, scope: Scope, receive: Receive, send: Send) -> None:
        found = await to_thread.run_sync(
            find_object,
            self.node,
            _actor(scope),
            path.account,
            path.dataset,
            KINDS[path.folder],
            path.name,
        )
        part = _wanted_part(found, scope)
        if isinstance(part, Response):
            await part(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": part.status, "headers": part.headers}
        if scope["method"] == "HEAD" or part.length == 0:
            await send(start)
            await send({"type": "http.response.body", "body": b""})
            return
        await _send_part(found, part, start, send)

    async def _put(self, path: ObjectPath, scope: Scope, receive: Receive, send: Send) -> None:
        kind = KINDS[path.folder]
        key = await to_thread.run_sync(
            upload_target, self.node, _actor(scope), path.account, path.dataset, kind, path.name
        )
        size = announced_size(self.node, _header(scope, b"content-length"))
        body = Body(receive, limit=size, idle_s=self.node.settings.body_idle_s)
        await to_thread.run_sync(store_object, self.node, key, body.chunks(), limiter=self.uploads)
        await Response(b"")(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Part:
    """Which bytes go out, under which headers."""

    status: int
    start: int
    length: int
    headers: list[tuple[bytes, bytes]]


def _wanted_part(found: StoredObject, scope: Scope) -> _Part | Response:
    """The whole object or the range asked for; or the answer that needs no bytes."""
    etag = f'"{found.key.hash}"'
    if etag in (_header(scope, b"if-none-match") or ""):
        return Response(None, 304, {"etag": etag})
    asked = _header(scope, b"range")
    if_range = _header(scope, b"if-range")
    try:
        part = parse_range(asked if if_range in (None, etag) else None, found.size)
    except Unsatisfiable:
        return Response(b"", 416, {"content-range": f"bytes */{found.size}"})
    start, length = part or (0, found.size)
    headers = _object_headers(etag, length, public=found.public)
    if part is not None:
        span = f"bytes {start}-{start + length - 1}/{found.size}"
        headers.append((b"content-range", span.encode()))
    return _Part(200 if part is None else 206, start, length, headers)


def _object_headers(etag: str, length: int, *, public: bool) -> list[tuple[bytes, bytes]]:
    scope = b"public" if public else b"private"
    return [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", str(length).encode()),
        (b"etag", etag.encode()),
        (b"accept-ranges", b"bytes"),
        (b"cache-control", scope + b", max-age=31536000, immutable"),
    ]


async def _send_part(found: StoredObject, part: _Part, start: Message, send: Send) -> None:
    """Stream the bytes; the header leaves only once the first read worked."""
    file = await to_thread.run_sync(found.open, part.start)
    try:
        left = part.length
        while left:
            chunk = await to_thread.run_sync(file.read, min(CHUNK_BYTES, left))
            if not chunk:
                raise OSError(f"{found.key.hash} ended {left} bytes early")
            if left == part.length:
                await send(start)
            left -= len(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": left > 0})
    finally:
        file.close()


def _headless(send: Send) -> Send:
    """Drops bodies: what HEAD answers with."""

    async def only_start(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return only_start


def _actor(scope: Scope) -> Actor:
    actor: Actor = scope["state"]["actor"]
    return actor


def _header(scope: Scope, name: bytes) -> str | None:
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if values else None
