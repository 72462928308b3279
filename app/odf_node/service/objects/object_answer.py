"""The response to a request for an object: status, headers, and which bytes follow.

An object never changes, so its hash is a strong entity tag, and clients may cache it for ever.
Source: RFC 9110 sections 13 (conditions), 14 (ranges).

Sources of the bytes of a response: a file on disk, or a stream of an object store.

As long as the kernel has the bytes of a file in memory (`RWF_NOWAIT`), they are read in the event
loop. Only reads from the disk need a thread.

A source that hashes bytes as it sends them, and withholds the last ones if the hash is wrong.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple, Protocol

from anyio import to_thread

from odf_protocol.errors import Damaged
from odf_protocol.multihash import SHA3_256, Multihash
from odf_storage.datasets.integrity.healing import identity_of_file
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..http.answers import Span, Unsatisfiable, is_named, parse_ranges

Headers = list[tuple[bytes, bytes]]
TYPE = b"application/octet-stream"
_BASE: Headers = [(b"content-type", TYPE), (b"accept-ranges", b"bytes")]
_KEEP = {
    True: b"public, max-age=31536000, immutable",
    False: b"private, max-age=31536000, immutable",
}
_PART_HEAD = b"\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n"
_SUFFIXES = {ObjectKind.DATA: b".parquet"}
"""File name suffix with which a browser saves an object, by kind of object."""
_ASKED = frozenset((b"if-match", b"if-none-match", b"if-range", b"range"))


class ObjectAnswer(NamedTuple):
    """Status, headers, and the body in pieces: literal bytes, and spans of the object."""

    status: int
    headers: Headers
    pieces: tuple[bytes | Span, ...] = ()


def answer_for(
    kind: ObjectKind,
    name: str,
    size: int,
    *,
    public: bool,
    headers: Sequence[tuple[bytes, bytes]],
    is_get: bool,
) -> ObjectAnswer:
    """Return the response to a GET or HEAD of the object `name` (its hash) of `size` bytes."""
    etag = b'"%s"' % name.encode()
    asked = {key: value for key, value in headers if key in _ASKED}
    if asked:
        answer = _conditional(etag, size, public, asked, is_get=is_get)
    else:
        answer = _whole(etag, size, public)
    if kind in _SUFFIXES and answer.pieces:
        named = b'attachment; filename="%s%s"' % (name.encode(), _SUFFIXES[kind])
        answer.headers.append((b"content-disposition", named))
    return answer


def _whole(etag: bytes, size: int, public: bool) -> ObjectAnswer:
    headers = [*_BASE, (b"content-length", b"%d" % size), *_kept(etag, public)]
    return ObjectAnswer(200, headers, (Span(0, size),) if size else ())


def _kept(etag: bytes, public: bool) -> Headers:
    return [(b"etag", etag), (b"cache-control", _KEEP[public])]


def _conditional(
    etag: bytes, size: int, public: bool, asked: dict[bytes, bytes], *, is_get: bool
) -> ObjectAnswer:
    """Evaluate conditions in the order of RFC 9110 section 13.2.2; ranges apply to GET only."""
    if b"if-match" in asked and not is_named(asked[b"if-match"], etag, weak=False):
        return ObjectAnswer(412, [(b"content-length", b"0"), (b"etag", etag)])
    if b"if-none-match" in asked and is_named(asked[b"if-none-match"], etag, weak=True):
        return ObjectAnswer(304, _kept(etag, public))
    header = asked.get(b"range") if is_get else None
    if header is None or asked.get(b"if-range", etag).strip() != etag:
        return _whole(etag, size, public)
    try:
        spans = parse_ranges(header.decode("latin-1").strip(), size)
    except Unsatisfiable:
        nothing = [(b"content-length", b"0"), (b"content-range", b"bytes */%d" % size)]
        return ObjectAnswer(416, [*nothing, (b"accept-ranges", b"bytes"), (b"etag", etag)])
    if not spans:
        return _whole(etag, size, public)
    if len(spans) > 1:
        return _several(etag, size, public, spans)
    span = spans[0]
    length = (b"content-length", b"%d" % span.length)
    place = (b"content-range", _place(span, size))
    return ObjectAnswer(206, [*_BASE, length, place, *_kept(etag, public)], (span,))


def _several(etag: bytes, size: int, public: bool, spans: Sequence[Span]) -> ObjectAnswer:
    """Return a `multipart/byteranges` response. The boundary is the hash of the object, which the
    object itself cannot contain."""
    boundary = etag.strip(b'"')
    pieces: list[bytes | Span] = []
    for span in spans:
        pieces += [_PART_HEAD % (boundary, TYPE, _place(span, size)), span]
    pieces.append(b"\r\n--%s--\r\n" % boundary)
    length = sum(piece.length if isinstance(piece, Span) else len(piece) for piece in pieces)
    headers = [
        (b"content-type", b"multipart/byteranges; boundary=" + boundary),
        (b"accept-ranges", b"bytes"),
        (b"content-length", b"%d" % length),
        *_kept(etag, public),
    ]
    return ObjectAnswer(206, headers, tuple(pieces))


def _place(span: Span, size: int) -> bytes:
    return b"bytes %d-%d/%d" % (span.start, span.end - 1, size)


CHUNK_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024
"""Files up to this size in bytes are sent in one piece if the kernel has them in memory."""
_NOWAIT = getattr(os, "RWF_NOWAIT", None)
"""Linux only; on other systems every read runs in a thread."""


class AnswerSource(Protocol):
    """The bytes of one object, read by one reader at a time."""

    async def read(self, at: int, count: int) -> bytes | bytearray:
        """Return up to `count` bytes (limit `CHUNK_BYTES`) from position `at`; empty at the end."""

    async def close(self) -> None: ...


class FileSource:
    """An open regular file."""

    __slots__ = ("_handle", "identity", "size")

    def __init__(self, handle: int, found: os.stat_result) -> None:
        self._handle, self.size, self.identity = handle, found.st_size, identity_of_file(found)

    @classmethod
    def open(cls, path: str) -> FileSource | None:
        """Open the file. Return None if there is no regular file at the path."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            return None
        return cls(handle, found)

    async def read(self, at: int, count: int) -> bytes | bytearray:
        piece = self.read_now(at, count)
        return await to_thread.run_sync(self._read, at, count) if piece is None else piece

    def read_now(self, at: int, count: int) -> bytearray | None:
        """Return bytes that the kernel has in memory; None if the disk must be read."""
        if _NOWAIT is None:
            return None
        piece = bytearray(min(count, CHUNK_BYTES))
        try:
            got = os.preadv(self._handle, (piece,), at, _NOWAIT)
        except OSError:  # not in memory, or the file system does not support the flag
            return None
        if got < len(piece):
            del piece[got:]
        return piece

    def _read(self, at: int, count: int) -> bytes:
        return os.pread(self._handle, min(count, CHUNK_BYTES), at)

    def close_now(self) -> None:
        os.close(self._handle)

    async def close(self) -> None:
        os.close(self._handle)


class StreamSource:
    """An object that is opened at a position and read sequentially from there."""

    def __init__(self, open_at: Callable[[int], BinaryIO]) -> None:
        self._open_at = open_at
        self._stream: BinaryIO | None = None
        self._at = 0

    async def read(self, at: int, count: int) -> bytes | bytearray:
        return await to_thread.run_sync(self._read, at, min(count, CHUNK_BYTES))

    def _read(self, at: int, count: int) -> bytes:
        if self._stream is None or self._at != at:
            self._shut()
            self._stream = self._open_at(at)
        piece = self._stream.read(count)
        self._at = at + len(piece)
        return piece

    async def close(self) -> None:
        if self._stream is not None:
            await to_thread.run_sync(self._shut)

    def _shut(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class BytesDiffer(Damaged):
    """The bytes of an object do not have the hash in its name; its last bytes were not sent."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(
            f"the stored bytes of {key.kind} {key.hash} are others", hash=str(key.hash)
        )


class HashedSource:
    """A whole object, read once from its begin to its end.

    `on_right` is called when all bytes are read and their hash is the one in the name.
    """

    def __init__(
        self,
        inner: AnswerSource,
        key: ObjectKey,
        size: int,
        on_right: Callable[[], None] = lambda: None,
    ) -> None:
        self._inner, self._key, self._size, self._on_right = inner, key, size, on_right
        self._state = hashlib.sha3_256()
        self.gave = False
        """Whether any bytes have been returned."""

    async def read(self, at: int, count: int) -> bytes | bytearray:
        """Return the next piece. Raises `BytesDiffer` instead of returning the last piece."""
        piece = await self._inner.read(at, count)
        if not piece:  # the object is shorter than its recorded size
            raise BytesDiffer(self._key)
        await to_thread.run_sync(self._state.update, piece)
        if at + len(piece) >= self._size:
            if Multihash(SHA3_256, self._state.digest()) != self._key.hash:
                raise BytesDiffer(self._key)
            self._on_right()
        self.gave = True
        return piece

    async def close(self) -> None:
        await self._inner.close()
