"""Serve bytes: GET and HEAD of refs, blocks, data and checkpoints, and PUT and PATCH of objects.

This is plain ASGI, because the framework would cost more than reading a block. The node sends bytes
verbatim and uncompressed, in reads of 1 MiB. It hashes them before or while it sends them: a
response with wrong bytes breaks off before its end. Responses at hash addresses have a length and a
strong ETag, and clients may cache them for ever. A file in the kernel's page cache and a head in
SQLite are read in the event loop; everything else is read in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.types import Message, Receive, Scope, Send

from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..auth.signed_urls import SignedUrls, signature_of
from ..http.addresses import DATASET, Route, path_of
from ..http.answers import Span, is_named
from ..jobs.job_watch import asked_wait
from ..limits.shares import caller_of
from ..news.head_watch import HeadPolls
from . import objects as usecase
from .object_answer import (
    CHUNK_BYTES,
    SMALL_BYTES,
    AnswerSource,
    BytesDiffer,
    FileSource,
    HashedSource,
    Headers,
    ObjectAnswer,
    StreamSource,
    answer_for,
)
from .objects import (
    HEAD,
    KINDS,
    UPLOAD_FOLDERS,
    UPLOADS,
    AtHand,
    LocalObject,
    ObjectUploads,
    StoredObject,
)

HASHED_AT_A_TIME = 2
NOTHING = Multihash.of(b"")
"""Hash of the empty object."""
READS = ("GET", "HEAD")
_REF_HEADERS: Headers = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


class ObjectRoutes:
    """ASGI applications for the addresses of references and objects."""

    def __init__(
        self,
        stores: Stores,
        access: DatasetAccess,
        at_hand: AtHand,
        uploads: ObjectUploads,
        polls: HeadPolls,
        urls: SignedUrls,
    ) -> None:
        self.stores, self.access = stores, access
        self.at_hand, self.uploads = at_hand, uploads
        self.polls, self.urls = polls, urls
        self._limiter: CapacityLimiter | None = None

    def routes(self) -> Iterator[Route]:
        """Return the entries of the routing table."""
        yield Route(f"{DATASET}/refs/{{name}}", self.ref, READS, is_transfer=True)
        for folder in KINDS:
            path = f"{DATASET}/{folder}/{{name}}"
            opened = {"takes_signed": True, "takes_s3": folder == "data"}
            yield Route(path, self.read, READS, is_transfer=True, **opened)
            if folder in UPLOAD_FOLDERS:
                yield Route(path, self.take, UPLOADS, is_transfer=True, is_audited=False)

    async def take(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle PUT and PATCH."""
        answer = await self.uploads.take(path_of(scope), scope, receive)
        await answer(scope, receive, send)

    async def ref(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with the hash that a reference points to. With `If-None-Match` and
        `Prefer: wait`, wait until it points elsewhere."""
        asked = {k: v for k, v in scope["headers"] if k in (b"if-none-match", b"prefer")}
        head = await self._head(scope)
        applied: Headers = []
        if b"if-none-match" in asked:
            known, etag = asked[b"if-none-match"], b'"%s"' % str(head).encode()
            wait_s = asked_wait(asked.get(b"prefer", b"").decode("latin-1")) or 0.0
            if is_named(known, etag, weak=True) and wait_s:
                wait_s = min(wait_s, self.polls.most_s)
                applied = [(b"preference-applied", b"wait=%d" % wait_s)]
                head = await self._other_head(scope, receive, head, wait_s)
                etag = b'"%s"' % str(head).encode()
            if is_named(known, etag, weak=True):
                headers = [(b"etag", etag), *_REF_HEADERS[1:], *applied]
                await _send_whole(304, headers, b"", send)
                return
        body = str(head).encode()
        length = (b"content-length", b"%d" % len(body))
        headers = [*_REF_HEADERS, length, (b"etag", b'"%s"' % body), *applied]
        await _send_whole(200, headers, body if scope["method"] == "GET" else b"", send)

    async def _head(self, scope: Scope) -> Multihash:
        """Return the hash of the reference. Raises the same errors as `read_ref`."""
        head, actor, path = None, _actor(scope), path_of(scope)
        if path.name == HEAD:
            head = self.at_hand.head(self.at_hand.place(actor, path.account, path.dataset))
        if head is not None:
            return head
        return await to_thread.run_sync(
            usecase.read_ref,
            self.access,
            self.stores.refs,
            actor,
            path.account,
            path.dataset,
            path.name,
        )

    async def _other_head(
        self, scope: Scope, receive: Receive, known: Multihash, wait_s: float
    ) -> Multihash:
        """Wait for another head. Raises the same errors as `HeadPolls.other`."""
        path = path_of(scope)
        entry = await to_thread.run_sync(
            self.access.resolve, _actor(scope), path.account, path.dataset, Action.READ
        )
        return await self.polls.other(
            entry.id,
            known,
            partial(self._head, scope),
            wait_s=wait_s,
            caller=caller_of(scope),
            receive=receive,
        )

    async def read(self, scope: Scope, _: Receive, send: Send) -> None:
        """Respond with an object, or with the requested ranges of it."""
        actor, path = await self._reader(scope), path_of(scope)
        kind = KINDS[path.word]
        place = self.at_hand.place(actor, path.account, path.dataset)
        local = self.at_hand.object(place, kind, path.name)
        file = FileSource.open(local.path) if local is not None else None
        if local is not None and file is not None:
            try:
                if await self._send_file(local, file, scope, send):
                    return
            finally:
                file.close_now()
        asked = (actor, path.account, path.dataset, kind, path.name)
        await self._read_slowly(asked, scope, send)

    async def _reader(self, scope: Scope) -> Actor:
        """Return the actor of the request; a signed URL gives it the right to read.

        Raises the same errors as `signed_reader`.
        """
        actor, signature = _actor(scope), signature_of(scope["query_string"])
        if signature is None:
            return actor
        return await to_thread.run_sync(
            usecase.signed_reader, self.access, self.urls, actor, path_of(scope), signature
        )

    async def _send_file(
        self, local: LocalObject, file: FileSource, scope: Scope, send: Send
    ) -> bool:
        """Send a local file. Return False if its bytes need the slow path and nothing was sent."""
        answer = _answer(local.kind, local.name, file.size, scope, public=local.public)
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
        key, note = local.key(), partial(hashed.note, local.name, file.identity)
        return await self._send_hashed(key, answer, HashedSource(file, key, file.size, note), send)

    async def _send_hashed(
        self, key: ObjectKey, answer: ObjectAnswer, source: HashedSource, send: Send
    ) -> bool:
        """Send a whole object and hash it meanwhile. Return False if it is damaged and nothing was
        sent yet.

        Raises `BytesDiffer`, which breaks the response off before its end.
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

    async def _read_slowly(self, asked: _Asked, scope: Scope, send: Send) -> None:
        kind = asked[3]
        try:
            found = await to_thread.run_sync(usecase.find_object, self.access, self.stores, *asked)
        except ObjectNotFound as missing:
            if scope["method"] != "HEAD" or kind is ObjectKind.BLOCK:
                raise
            answer = await to_thread.run_sync(self.uploads.how_far, missing, *asked)
            await answer(scope, _nothing, send)
            return
        shown = _answer(kind, str(found.key.hash), found.size, scope, public=found.public)
        if _is_whole(shown, scope) and await self._stream_hashed(found, shown, send):
            return
        if _is_whole(shown, scope) or _shows_bytes(shown, scope):
            found = await to_thread.run_sync(
                usecase.made_sure, self.stores, found, limiter=self._hashing()
            )
            shown = _answer(kind, str(found.key.hash), found.size, scope, public=found.public)
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
        """Return the limiter of concurrent checks: requests for ranges of one object wait for the
        first check, and then find the object checked."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(HASHED_AT_A_TIME)
        return self._limiter


_Asked = tuple[Actor, str | None, str, ObjectKind, str]
"""Actor, account, dataset, kind, text of the hash."""


def _answer(kind: ObjectKind, name: str, size: int, scope: Scope, *, public: bool) -> ObjectAnswer:
    is_get = scope["method"] == "GET"
    return answer_for(kind, name, size, public=public, headers=scope["headers"], is_get=is_get)


async def _send_object(
    answer: ObjectAnswer, source: AnswerSource, scope: Scope, send: Send
) -> None:
    """Send the pieces; the header is sent only after the first read has succeeded."""
    if not _shows_bytes(answer, scope):
        await _send_whole(answer.status, answer.headers, b"", send)
        return
    await _send_pieces(answer, source, send)


def _is_whole(answer: ObjectAnswer, scope: Scope) -> bool:
    """Return whether the response has every byte of the object."""
    return answer.status == 200 and scope["method"] == "GET"


def _shows_bytes(answer: ObjectAnswer, scope: Scope) -> bool:
    return scope["method"] != "HEAD" and bool(answer.pieces)


async def _send_pieces(answer: ObjectAnswer, source: AnswerSource, send: Send) -> None:
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


async def _nothing() -> Message:
    """Receive the empty body of a HEAD request."""
    return {"type": "http.request"}


def _actor(scope: Scope) -> Actor:
    actor: Actor = scope["state"]["actor"]
    return actor
