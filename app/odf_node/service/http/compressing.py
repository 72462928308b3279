"""Compression of answers: texts of some length, for clients that ask for gzip.

Never compressed are slices, blocks and other bytes, ranges, answers with a strong entity tag,
which names bytes, and streams of events. Nor is what a browser gets that sends a cookie: a page
with a secret and with texts of a stranger would tell the secret by its length (BREACH).
"""

from __future__ import annotations

import zlib

import re2
from anyio import to_thread
from starlette.types import Message

from .entity_tags import WEAK

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
