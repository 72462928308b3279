"""The response to a request for an object: status, headers, and which bytes follow.

An object never changes, so its hash is a strong entity tag, and clients may cache it for ever.
Source: RFC 9110 sections 13 (conditions), 14 (ranges).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odf_storage.stores.ports.values import ObjectKind

from ..http.entity_tags import is_named
from ..http.ranges import Span, Unsatisfiable, parse_ranges

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
