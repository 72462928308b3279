"""Errors as HTTP responses: problem documents, and the bare bodies of the reference node.

Streaming responses, which produce no body for HEAD.

Byte ranges of a request, as defined by RFC 9110 (section 14).

A malformed header, or one with too many ranges, counts as absent: the response is then the
whole object.

Entity tags in the conditions of requests (RFC 9110, section 13).

Formats of data that clients send: their media types and file extensions.
"""

from __future__ import annotations

import logging
import re
from typing import Any, NamedTuple

import msgspec
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.sources.csv_header import WORKBOOK_TYPES
from odf_storage.stores.ports.values import Failed

from ..errors import BARE, INTERNAL_MESSAGE, problem, problem_of, status_of, status_of_failed

PROBLEM_JSON = "application/problem+json"
HEADERS_ONLY = "headers only"
"""Key in the state of a HEAD request. Handlers check it to avoid computing an expensive body."""
CLIENT_ERRORS = range(400, 500)
_log = logging.getLogger("odf.node")


class JsonAnswer(Response):
    """A JSON response written by msgspec: keys in the given order, no blanks, UTF-8."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content, enc_hook=str)


CONCURRENT = "concurrent-requests"
"""Unit of limits without a window: what is under way, or waits, at one time."""


class ProblemAnswer(JsonAnswer):
    media_type = PROBLEM_JSON


def error_answer(error: NodeError, *, explained: bool = False) -> Response:
    """Return the response for an error.

    The transfer protocols prescribe an empty body for some errors. With `explained`, for all
    other routes, the response to such an error carries a problem document.
    """
    status = int(status_of(error))
    if status not in CLIENT_ERRORS:
        _log.error("request failed: %s: %s", error.code, error.message)
    if BARE.get(error.code):
        return PlainTextResponse(error.message, status)
    if error.code in BARE and not explained:
        return Response(b"", status, _challenge(error))
    return ProblemAnswer(problem_of(error), status, _headers(error))


def failed_answer(failed: Failed) -> Response:
    """Return the response for an error that is the outcome of a job."""
    status = status_of_failed(failed)
    message = failed.message or INTERNAL_MESSAGE
    return ProblemAnswer(problem(failed.error, status, message, failed.facts), status)


def crash_answer() -> Response:
    """Return the response for an unexpected exception. It reveals no details."""
    return JsonAnswer({"error": "Internal Server Error"}, 500)


def not_found_answer() -> Response:
    """Return the response for an unknown address, with the text of the transfer protocols."""
    return PlainTextResponse("Not Found", 404)


def _challenge(error: NodeError) -> dict[str, str]:
    """Return the `WWW-Authenticate` header if the error carries a challenge."""
    challenge = error.facts.get("challenge")
    return {} if challenge is None else {"www-authenticate": str(challenge)}


def _headers(error: NodeError) -> dict[str, str]:
    status = int(status_of(error))
    if status in (429, 503) and "retry_after_s" in error.facts:
        return {"retry-after": str(error.facts["retry_after_s"]), **_rate_limit(error)}
    if "challenge" in error.facts:
        return _challenge(error)
    if status == 401:
        return {"www-authenticate": "Bearer"}
    return {"upgrade": "websocket", "connection": "upgrade"} if status == 426 else {}


def _rate_limit(error: NodeError) -> dict[str, str]:
    """Return the headers of draft-ietf-httpapi-ratelimit-headers that name the limit that was
    reached, if it has a number."""
    facts = error.facts
    most = facts.get("value", facts.get("limit"))
    if not isinstance(most, int):
        return {}
    window = facts.get("window_s")
    unit = f';qu="{facts.get("unit", CONCURRENT)}"' if window is None else f";w={window}"
    return {
        "ratelimit-policy": f'"{error.code}";q={most}{unit}',
        "ratelimit": f'"{error.code}";r=0;t={facts["retry_after_s"]}',
    }


class StreamedAnswer(StreamingResponse):
    """A streaming response that sends only headers to HEAD. It always calls `finished`, which
    releases the resources of the body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Resources are released even if the client left before the first
        byte."""
        try:
            if scope.get("state", {}).get(HEADERS_ONLY):
                start = {"type": "http.response.start", "status": self.status_code}
                await send({**start, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
                return
            await super().__call__(scope, receive, send)
        finally:
            await self.finished()

    async def finished(self) -> None:
        """Release the resources of the body, which is not read any further."""


MAX_RANGES = 64
"""Limit of ranges in one request; readers of Parquet request a handful."""
MAX_HEADER_CHARS = 4096
_UNIT = "bytes="
_RANGE = re.compile(r"(\d{0,18})-(\d{0,18})", re.ASCII)


class Unsatisfiable(ValueError):
    """None of the ranges contains a byte of the object."""


class Span(NamedTuple):
    """Consecutive bytes of an object."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """Position behind the last byte."""
        return self.start + self.length


def parse_ranges(header: str | None, size: int) -> tuple[Span, ...]:
    """Return the spans to send of an object of `size` bytes. Empty means the whole object: there
    is no header, it has another unit, or it is malformed.

    Spans stay in the requested order. If some overlap, all are sorted and joined instead, so that
    no byte is sent twice.

    Raises:
        Unsatisfiable: the ranges are well-formed, but contain no byte of the object.
    """
    if header is None or len(header) > MAX_HEADER_CHARS or header[:6].lower() != _UNIT:
        return ()
    asked = [part.strip(" \t") for part in header[len(_UNIT) :].split(",")]
    asked = [part for part in asked if part]  # empty members of a list are allowed
    if not asked or len(asked) > MAX_RANGES:
        return ()
    bounds = [_bounds(part) for part in asked]
    if None in bounds:
        return ()
    spans = [span for one in bounds if one and (span := _span(*one, size)) is not None]
    if not spans:
        raise Unsatisfiable
    return tuple(_joined(spans))


def _bounds(text: str) -> tuple[int | None, int | None] | None:
    """Return first and last position, one of which may be absent; None for malformed text."""
    match = _RANGE.fullmatch(text)
    if match is None or match.groups() == ("", ""):
        return None
    first, last = (int(digits) if digits else None for digits in match.groups())
    return None if first is not None and last is not None and last < first else (first, last)


def _span(first: int | None, last: int | None, size: int) -> Span | None:
    """Return the part of a range inside the object; None if there is none."""
    if first is None:
        length = min(last or 0, size)
        return Span(size - length, length) if length else None
    end = size if last is None else min(last + 1, size)
    return Span(first, end - first) if first < size else None


def _joined(spans: list[Span]) -> list[Span]:
    """Return the spans, sorted and joined if some overlap, so that they contain each byte once."""
    ordered = sorted(spans)
    joined = ordered[:1]
    for span in ordered[1:]:
        last = joined[-1]
        if span.start >= last.end:
            joined.append(span)
        else:
            joined[-1] = Span(last.start, max(last.end, span.end) - last.start)
    return spans if len(joined) == len(spans) else joined


WEAK = b"W/"
"""Prefix of a tag that names what an answer says, in any encoding, and not its bytes."""


def is_named(header: bytes, etag: bytes, *, weak: bool) -> bool:
    """Return whether the header, a list of entity tags or `*`, contains this tag. With `weak`,
    the prefix `W/` is ignored in both."""
    tags = [tag.strip() for tag in header.split(b",")]
    if weak:
        tags, etag = [tag.removeprefix(WEAK) for tag in tags], etag.removeprefix(WEAK)
    return b"*" in tags or etag in tags


MEDIA_TYPES: dict[str, ReadStep | None] = {
    "text/csv": ReadStepCsv(header=True, infer_schema=True),
    "application/json": ReadStepJson(),
    "application/x-ndjson": ReadStepNdJson(),
    "application/geo+json": ReadStepGeoJson(),
    "application/x-ndgeojson": ReadStepNdGeoJson(),
    "application/vnd.apache.parquet": ReadStepParquet(),
    "application/parquet": ReadStepParquet(),
    "application/x-parquet": ReadStepParquet(),
    "application/vnd.apache.arrow.stream": ReadStepParquet(),
    **dict.fromkeys(WORKBOOK_TYPES.values(), ReadStepCsv(header=True, infer_schema=True)),
    "application/vnd.shp": None,
    "x-gis/x-shapefile": None,
}
"""Media types of the formats of the specification, each with the read step of a push source that
the node creates for it.

None: the media type is known, but the node creates no source for it. A worker may refuse it.
"""
EXTENSIONS: dict[str, str] = {
    "csv": "text/csv",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "geojson": "application/geo+json",
    "ndgeojson": "application/x-ndgeojson",
    "parquet": "application/vnd.apache.parquet",
    "arrows": "application/vnd.apache.arrow.stream",
    **WORKBOOK_TYPES,
    "shp": "application/vnd.shp",
    "shx": "application/vnd.shp",
    **dict.fromkeys(("tsv", "tab", "txt"), "text/csv"),
    "jsonl": "application/x-ndjson",
    "geojsonl": "application/x-ndgeojson",
}
PACKED = (".gz", ".zip", ".bz2", ".zst")
"""Extensions of compressed files, which workers unpack when they read them."""


def unsupported_media_type(given: str) -> BadInput:
    """The Content-Type is not a format in which data can be posted."""
    return BadInput(
        "UnsupportedMediaType", "Unsupported media type", given=given, known=sorted(MEDIA_TYPES)
    )


def media_type_of(content_type: str | None, file_name: str) -> str | None:
    """Return the media type of a file: the declared one if it is known, else by its extension."""
    plain = (content_type or "").partition(";")[0].strip().lower()
    if plain in MEDIA_TYPES:
        return plain
    name = file_name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return EXTENSIONS.get(name.rpartition(".")[2])


def extension_of(read: ReadStep) -> str:
    """Return the file extension for data that a source reads. It is `zip` for shapefiles, which
    are sent as archives."""
    formats = ((extension, MEDIA_TYPES[media]) for extension, media in EXTENSIONS.items())
    fitting = (extension for extension, one in formats if type(one) is type(read))
    return next(fitting, "zip")
