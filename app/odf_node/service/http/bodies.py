"""Request bodies that arrive in pieces, with limits on size, idle time and speed.

Compressed bodies (`Content-Encoding`), unpacked piece by piece and bounded in size.
"""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from anyio import from_thread
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from odf_protocol.errors import BadInput, LimitExceeded

if TYPE_CHECKING:
    from zlib import _Decompress

BODY_PACE_S = 30.0
"""Seconds of waiting for a body over which its pace is measured."""

BODY_MIN_BYTES_S = 1024
"""Slowest pace of a request body, in bytes a second; below it, 408."""

PIECES_AHEAD = 8
"""Limit of pieces that wait for the thread; the server makes pieces of at most about 256 KiB."""
MAX_FORM_FIELDS = 16
LIMIT = "ODF_NODE_MAX_BODY_BYTES"
"""Name of the setting that limits the size of bodies with records."""


class BodyTooLong(LimitExceeded):
    """A body is longer than its limit."""

    def __init__(self, limit: int, setting: str | None = None) -> None:
        message = f"the body is longer than the {limit} bytes taken here"
        super().__init__(message, limit=limit, setting=setting)


async def small_body(request: Request, limit: int) -> bytes:
    """Return the whole body, of at most `limit` bytes. Raises `BodyTooLong`, `BodyBrokeOff`."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise BodyTooLong(limit)
    except ClientDisconnect:
        raise body_left() from None
    return bytes(body)


def body_left() -> BadInput:
    """The client has gone before the end of its body."""
    return BadInput("BodyBrokeOff", "the client left in the middle of the body")


async def small_form(
    request: Request, limit: int, *, fields: int = MAX_FORM_FIELDS
) -> dict[str, str]:
    """Return the fields of a form-encoded body; for a repeated field, the first value.

    Raises:
        BodyTooLong: longer than `limit` bytes.
        MalformedForm: the body is not a form, or has too many fields.
    """
    raw = await small_body(request, limit)
    try:
        found = parse_qs(raw.decode(), max_num_fields=fields, strict_parsing=bool(raw))
    except ValueError:
        raise BadInput(
            "MalformedForm", f"the body has to be form-encoded, of {fields} fields at most"
        ) from None
    return {name: values[0] for name, values in found.items()}


class Paced:
    """The `receive` of one request, which fails when the body arrives too slowly.

    Only the time spent waiting for the client counts, not the time that the node takes to
    process what arrived.
    """

    def __init__(self, receive: Receive, idle_s: float) -> None:
        """`idle_s` is how many seconds the client may send nothing."""
        self._receive, self._idle_s = receive, idle_s
        self._ended = False
        self._waited, self._came = 0.0, 0

    async def __call__(self) -> Message:
        """Return the next message. Raises `BodyBrokeOff`, `BodyTooSlow`."""
        if self._ended:
            return await self._receive()
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(self._idle_s):
                message = await self._receive()
        except TimeoutError:
            raise BadInput("BodyBrokeOff", "the body stopped arriving") from None
        self._ended = not message.get("more_body", False)
        self._waited += now() - began
        self._came += len(message.get("body", b""))
        if self._waited >= BODY_PACE_S and not self._ended:
            self._check()
        return message

    def _check(self) -> None:
        pace = BODY_MIN_BYTES_S
        if self._came < pace * self._waited:
            raise BadInput(
                "BodyTooSlow", f"the body came more slowly than {pace} bytes a second", limit=pace
            )
        self._waited, self._came = 0.0, 0


class Body:
    """A request body that a thread reads while the rest arrives. Use it within `async with`."""

    def __init__(self, receive: Receive, *, limit: int, setting: str | None = None) -> None:
        """`limit` is in bytes. `setting` is the name of the setting that defines it, which the
        error reports to the client."""
        self._receive, self._limit, self._setting = receive, limit, setting
        self._flow: _Flow | None = None
        self.size = 0

    async def __aenter__(self) -> Body:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop receiving, even if the thread has not read all pieces."""
        if self._flow is not None:
            await self._flow.end()

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces. Iterate in a thread that was started from the event loop.

        Raises:
            BodyBrokeOff: the client disconnected, stopped sending or was too slow. BodyTooLong.
        """
        self._flow = flow = from_thread.run_sync(_Flow, self._pieces())
        yield from flow.pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Yield pieces as they arrive. Copying them into larger ones would cost as much as
        hashing them."""
        more = True
        while more:
            message = await self._receive()
            yield self._piece(message)
            more = message.get("more_body", False)

    def _piece(self, message: Message) -> bytes:
        if message["type"] == "http.disconnect":
            raise body_left()
        piece: bytes = message.get("body", b"")
        self.size += len(piece)
        if self.size > self._limit:
            raise BodyTooLong(self._limit, self._setting)
        return piece


class _Flow:
    """A bounded queue of pieces from the event loop to one thread."""

    def __init__(self, source: AsyncIterator[bytes]) -> None:
        """Start to receive pieces. Call it in the event loop."""
        self._arrived: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        self._room = asyncio.Semaphore(PIECES_AHEAD)
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._fill(source))

    def pieces(self) -> Iterator[bytes]:
        """Yield the pieces, in the thread. Raise the errors of the source."""
        while (piece := self._arrived.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            if piece:
                yield piece
            if not self._task.done():
                with suppress(RuntimeError):  # the loop has ended, and the task with it
                    self._loop.call_soon_threadsafe(self._room.release)

    async def end(self) -> None:
        """Stop receiving. Call it in the event loop."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _fill(self, source: AsyncIterator[bytes]) -> None:
        try:
            async for piece in source:
                await self._room.acquire()
                self._arrived.put(piece)
            self._arrived.put(None)
        except Exception as error:
            self._arrived.put(error)
        except asyncio.CancelledError:
            self._arrived.put(
                BadInput("BodyBrokeOff", "the service stopped in the middle of the body")
            )
            raise


PIECE_BYTES = 1024 * 1024
FREE_BYTES = 16 * 1024 * 1024
"""Size in bytes up to which the ratio of a body is not checked, because short texts may compress
very well."""


Unpack = Callable[[Iterable[bytes]], Iterator[bytes]]


def decoded(chunks: Iterable[bytes], encoding: str, *, limit: int, ratio: int) -> Iterable[bytes]:
    """Return the unpacked body. `encoding` is the value of `Content-Encoding`, `limit` is in
    bytes, `ratio` is the largest allowed ratio of unpacked to sent bytes.

    Raises:
        UnsupportedEncoding: at the call. MalformedEncoding, BodyTooLong, UnpackedTooFar: while
            the body is read.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return chunks
    if name not in ENCODINGS:
        raise BadInput(
            "UnsupportedEncoding",
            f"bodies are taken as they are, or in one of {', '.join(ENCODINGS)}; "
            f"not in {name[:50]!r}",
            given=name[:50],
            known=list(ENCODINGS),
        )
    return _bounded(ENCODINGS[name], chunks, limit, ratio)


def _bounded(unpack: Unpack, chunks: Iterable[bytes], limit: int, ratio: int) -> Iterator[bytes]:
    sent = given = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for chunk in chunks:
            sent += len(chunk)
            yield chunk

    for piece in unpack(counted()):
        given += len(piece)
        if given > limit:
            raise BodyTooLong(limit, LIMIT)
        if given > max(FREE_BYTES, sent * ratio):
            raise LimitExceeded(
                "UnpackedTooFar",
                f"the body is more than {ratio} times larger than what was sent",
                limit="max_unpacked_ratio",
                value=ratio,
                setting="ODF_NODE_MAX_UNPACKED_RATIO",
            )
        yield piece


def _inflated(start: Callable[[bytes], _Decompress]) -> Unpack:
    """Return a function that unpacks with `zlib`. A body may consist of several packed parts."""

    def unpack(chunks: Iterable[bytes]) -> Iterator[bytes]:
        inflater: _Decompress | None = None
        try:
            for chunk in chunks:
                rest = chunk
                while rest:
                    inflater = start(rest) if inflater is None or inflater.eof else inflater
                    yield from _drained(inflater, rest)
                    rest = inflater.unused_data
        except zlib.error as broken:
            raise BadInput("MalformedEncoding", f"the body cannot be unpacked: {broken}") from None
        if inflater is not None and not inflater.eof:
            raise BadInput("MalformedEncoding", "the packed body ends too early")

    return unpack


def _drained(inflater: _Decompress, data: bytes) -> Iterator[bytes]:
    """Yield all output for the data, in bounded pieces."""
    while True:
        piece = inflater.decompress(data, PIECE_BYTES)
        data = inflater.unconsumed_tail
        if piece:
            yield piece
        if inflater.eof or (not data and len(piece) < PIECE_BYTES):
            return


def _gzip(_: bytes) -> _Decompress:
    return zlib.decompressobj(wbits=31)


def _deflate(head: bytes) -> _Decompress:
    """Start unpacking with a zlib header, as the standard requires, or without one, as some
    clients send it."""
    has_header = head[0] & 0x0F == 8 and (len(head) < 2 or (head[0] * 256 + head[1]) % 31 == 0)
    return zlib.decompressobj(wbits=15 if has_header else -15)


def _zstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    import pyarrow as pa  # imported late because it is slow; it contains the decoder

    source = _Stream(chunks)
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd") as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece
    except OSError as broken:
        raise BadInput(
            "MalformedEncoding", f"the body cannot be unpacked: {str(broken)[:200]}"
        ) from None


class _Stream(io.RawIOBase):
    """Chunks as a readable file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = chunk
        end = len(self._rest) if size is None or size < 0 else size
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece

    def readinto(self, into: Any) -> int:
        piece = self.read(len(into))
        into[: len(piece)] = piece
        return len(piece)


ENCODINGS: dict[str, Unpack] = {
    "gzip": _inflated(_gzip),
    "x-gzip": _inflated(_gzip),
    "deflate": _inflated(_deflate),
    "zstd": _zstd,
}
"""Functions that unpack bodies, by the name of the encoding in HTTP."""
