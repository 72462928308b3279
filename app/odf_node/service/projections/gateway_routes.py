"""`GET /platform/kartothek/{key}`: published datasets as a read-only store over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from ..http.answers import HEADERS_ONLY
from ..http.deps import ActorDep, wired
from ..http.ranges import Span, Unsatisfiable, parse_ranges
from . import gateway as usecase
from .gateway import Gateway, ServedFile

GatewayDep = Annotated[Gateway, Depends(wired(Gateway))]
CHUNK_BYTES = 1 << 20
TYPE = "application/octet-stream"
router = APIRouter()


@router.get("/platform/kartothek/{key:path}", summary="A file of a dataset", tags=["projections"])
def read(key: str, request: Request, gateway: GatewayDep, actor: ActorDep) -> Response:
    """Return the whole file, or one range of it. State and schema files change with every refresh;
    all other files never change."""
    return file_answer(usecase.find_file(gateway, actor, key), request)


def file_answer(file: ServedFile, request: Request) -> Response:
    """Return the response for a file, also of other stores."""
    etag = f'"{file.tag}"'
    headers = {"etag": etag, "accept-ranges": "bytes", "cache-control": _kept(file)}
    if etag in [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    asked = request.headers.get("range")
    if request.headers.get("if-range", etag) != etag:
        asked = None
    try:
        spans: Sequence[Span] = parse_ranges(asked, file.size)
    except Unsatisfiable:
        headers["content-range"] = f"bytes */{file.size}"
        return Response(status_code=416, headers=headers)
    is_part = len(spans) == 1
    span = spans[0] if is_part else Span(0, file.size)
    headers["content-length"] = str(span.length)
    if is_part:
        headers["content-range"] = f"bytes {span.start}-{span.end - 1}/{file.size}"
    is_head = bool(request.scope.get("state", {}).get(HEADERS_ONLY))
    body = iter(()) if is_head else _pieces(file, span)
    return StreamingResponse(body, 206 if is_part else 200, headers, TYPE)


def _pieces(file: ServedFile, span: Span) -> Iterator[bytes]:
    with file.open() as stream:
        stream.seek(span.start)
        left = span.length
        while left:
            piece = stream.read(min(left, CHUNK_BYTES))
            if not piece:
                raise OSError(f"a file ended {left} bytes early")
            left -= len(piece)
            yield piece


def _kept(file: ServedFile) -> str:
    whose = "public" if file.is_public else "private"
    return f"{whose}, max-age=31536000, immutable" if file.is_fixed else f"{whose}, no-cache"
