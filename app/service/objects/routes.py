"""The byte-serving path: GET and HEAD of refs, blocks, data and checkpoints, and PUT of objects.

Stands in front of the framework, because routing would cost more than reading a block.
Bytes go out verbatim and uncompressed, in reads of 1 MiB, and only after they were hashed, or on
the way to that: an answer with wrong bytes never comes to its end. Hash-addressed answers carry
a length, a strong ETag and may be kept forever. What is at hand (a file in the kernel's
memory, a head in SQLite) is answered at once, everything else by way of threads.
"""

from __future__ import annotations

from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.errors import ObjectNotFound
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.answers import HEADERS_ONLY, TRANSFER
from ..http.ranges import Span
from . import objects as usecase
from .hashed_source import BytesDiffer, HashedSource
from .object_answer import Headers, ObjectAnswer, answer_for
from .object_path import KINDS, REFS, ObjectPath
from .object_uploads import UPLOAD_FOLDERS, UPLOADS, Uploads
from .objects import HEAD, AtHand, LocalObject, StoredObject
from .source import CHUNK_BYTES, SMALL_BYTES, FileSource, Source, StreamSource

HASHED_AT_A_TIME = 2
NOTHING = Multihash.of(b"")
"""What an object without bytes is called."""
METHODS = frozenset({"GET", "HEAD", "PUT", "PATCH"})
_REF_HEADERS: Headers = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


class ObjectPaths:
    """ASGI application: answers object paths itself, leaves the rest to `inner`."""

    def __init__(
        self,
        inner: ASGIApp,
        stores: Stores,
        access: DatasetAccess,
        at_hand: AtHand,
        uploads: Uploads,
    ) -> None:
        self.inner, self.stores, self.access = inner, stores, access
        self.at_hand, self.uploads = at_hand, uploads
        self._limiter: CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        path = None
        if scope["type"] == "http" and method in METHODS:
            path = ObjectPath.of(scope["path"], self.access.tenancy)
        if path is None or (method in UPLOADS and path.folder not in UPLOAD_FOLDERS):
            await self._leave(scope, receive, send)
            return
        scope.setdefault("state", {})[TRANSFER] = True
        if method in UPLOADS:
            answer = await self.uploads.take(path, scope, receive)
            await answer(scope, receive, send)
        elif path.folder == REFS:
            await self._ref(path, scope, send)
        else:
            await self._read(path, scope, send)

    async def _leave(self, scope: Scope, receive: Receive, send: Send) -> None:
        """To the framework, which knows no HEAD: it is a GET whose body is dropped."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope.setdefault("state", {})[HEADERS_ONLY] = True
            scope, send = {**scope, "method": "GET"}, _headless(send)
        try:
            await self.inner(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":
                self.at_hand.close()

    async def _ref(self, path: ObjectPath, scope: Scope, send: Send) -> None:
        head, actor = None, _actor(scope)
        if path.name == HEAD:
            head = self.at_hand.head(self.at_hand.place(actor, path.account, path.dataset))
        if head is None:
            head = await to_thread.run_sync(
                usecase.read_ref,
                self.access,
                self.stores.refs,
                actor,
                path.account,
                path.dataset,
                path.name,
            )
        body = str(head).encode()
        await _send_whole(
            200, ref_headers(len(body)), body if scope["method"] == "GET" else b"", send
        )

    async def _read(self, path: ObjectPath, scope: Scope, send: Send) -> None:
        actor, kind = _actor(scope), KINDS[path.folder]
        known = self.at_hand.place(actor, path.account, path.dataset)
        local = self.at_hand.object(known, kind, path.name)
        file = FileSource.open(local.path) if local is not None else None
        if known is not None and local is not None and file is not None:
            key = ObjectKey(known.entry.id, kind, Multihash.parse(local.name))
            try:
                if await self._send_file(key, local, file, scope, send):
                    return
            finally:
                file.close_now()
        place = (actor, path.account, path.dataset, kind, path.name)
        await self._read_slowly(place, scope, send)

    async def _send_file(
        self, key: ObjectKey, local: LocalObject, file: FileSource, scope: Scope, send: Send
    ) -> bool:
        """False: nothing was sent, since it takes longer to be sure of the bytes."""
        answer = _answer(key.kind, local.name, file.size, scope, public=local.public)
        hashed = self.at_hand.hashed
        if _is_whole(answer, scope) and file.size <= SMALL_BYTES:
            body = file.read_now(0, file.size)
            if body is not None and len(body) == file.size:
                if not self.at_hand.is_right(local.name, body, file.identity):
                    return False
                await _send_whole(200, answer.headers, body, send)
                return True
        known = hashed.knows(local.name, file.identity)
        if not _is_whole(answer, scope) and not known and _shows_bytes(answer, scope):
            return False
        if known or not _is_whole(answer, scope):
            await _send_object(answer, file, scope, send)
            return True
        note = partial(hashed.note, local.name, file.identity)
        return await self._send_hashed(key, answer, HashedSource(file, key, file.size, note), send)

    async def _send_hashed(
        self, key: ObjectKey, answer: ObjectAnswer, source: HashedSource, send: Send
    ) -> bool:
        """All of an object, hashed on the way. False: it is not right, and nothing was sent.

        Raises `BytesDiffer`, which breaks the answer off before its end.
        """
        if not answer.pieces:
            if key.hash != NOTHING:
                return False
            await _send_whole(answer.status, answer.headers, b"", send)
            return True
        try:
            await _send_pieces(answer, source, send)
        except BytesDiffer:
            if not source.gave:
                return False
            await to_thread.run_sync(usecase.found_damaged, self.stores, key)
            raise
        return True

    async def _read_slowly(self, place: _Place, scope: Scope, send: Send) -> None:
        try:
            found = await to_thread.run_sync(usecase.find_object, self.access, self.stores, *place)
        except ObjectNotFound as missing:
            if scope["method"] != "HEAD" or place[3] is ObjectKind.BLOCK:
                raise
            answer = await to_thread.run_sync(self.uploads.how_far, missing, *place)
            await answer(scope, _nothing, send)
            return
        shown = _answer(place[3], str(found.key.hash), found.size, scope, public=found.public)
        if _is_whole(shown, scope) and await self._stream_hashed(found, shown, send):
            return
        if _is_whole(shown, scope) or _shows_bytes(shown, scope):
            found = await to_thread.run_sync(
                usecase.made_sure, self.stores, found, limiter=self._hashing()
            )
            shown = _answer(place[3], str(found.key.hash), found.size, scope, public=found.public)
        source = StreamSource(found.open)
        try:
            await _send_object(shown, source, scope, send)
        finally:
            await source.close()

    async def _stream_hashed(self, found: StoredObject, shown: ObjectAnswer, send: Send) -> bool:
        source = HashedSource(StreamSource(found.open), found.key, found.size)
        try:
            return await self._send_hashed(found.key, shown, source, send)
        finally:
            await source.close()

    def _hashing(self) -> CapacityLimiter:
        """Few at a time: ranges of one object wait for one look at it, and find it done."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(HASHED_AT_A_TIME)
        return self._limiter


def ref_headers(length: int) -> Headers:
    """Headers of an answer that is a reference as text."""
    return [*_REF_HEADERS, (b"content-length", b"%d" % length)]


_Place = tuple[Actor, str | None, str, ObjectKind, str]
"""Who asks, account, dataset, kind, text of the hash."""


def _answer(kind: ObjectKind, name: str, size: int, scope: Scope, *, public: bool) -> ObjectAnswer:
    is_get = scope["method"] == "GET"
    return answer_for(kind, name, size, public=public, headers=scope["headers"], is_get=is_get)


async def _send_object(answer: ObjectAnswer, source: Source, scope: Scope, send: Send) -> None:
    """Stream the pieces; the header leaves only once the first read worked."""
    if not _shows_bytes(answer, scope):
        await _send_whole(answer.status, answer.headers, b"", send)
        return
    await _send_pieces(answer, source, send)


def _is_whole(answer: ObjectAnswer, scope: Scope) -> bool:
    """Whether every byte of the object is sent, in one go."""
    return answer.status == 200 and scope["method"] == "GET"


def _shows_bytes(answer: ObjectAnswer, scope: Scope) -> bool:
    return scope["method"] != "HEAD" and bool(answer.pieces)


async def _send_pieces(answer: ObjectAnswer, source: Source, send: Send) -> None:
    started = False
    chunk: bytes | bytearray
    for number, piece in enumerate(answer.pieces, 1):
        at, left = (piece.start, piece.length) if isinstance(piece, Span) else (0, len(piece))
        while left:
            if isinstance(piece, Span):
                chunk = await source.read(at, min(left, CHUNK_BYTES))
                if not chunk:
                    raise OSError(f"an object ended {left} bytes early")
            else:
                chunk = piece
            if not started:
                await send(_start(answer.status, answer.headers))
                started = True
            at, left = at + len(chunk), left - len(chunk)
            more = left > 0 or number < len(answer.pieces)
            await send({"type": "http.response.body", "body": chunk, "more_body": more})


async def _send_whole(status: int, headers: Headers, body: bytes | bytearray, send: Send) -> None:
    await send(_start(status, headers))
    await send({"type": "http.response.body", "body": body})


def _start(status: int, headers: Headers) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _headless(send: Send) -> Send:
    """Drops bodies: what HEAD answers with."""

    async def only_start(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return only_start


async def _nothing() -> Message:
    """What is left of the body of a HEAD request."""
    return {"type": "http.request"}


def _actor(scope: Scope) -> Actor:
    actor: Actor = scope["state"]["actor"]
    return actor
