"""/platform/file/upload: upload files, which a later request ingests by their token."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from odf_protocol.errors import Refused
from odf_storage.stores.ports.values import Account

from ..auth.access import unauthorized
from ..auth.actors import Actor
from ..auth.signed_urls import UploadToken
from ..http.answers import MEDIA_TYPES, JsonAnswer
from ..http.bodies import Body, BodyTooLong
from ..http.deps import ActorDep, BaseDep, wired
from ..http.multipart import OVERHEAD_BYTES, UploadForm
from ..limits.shares import caller_of
from . import uploaded_files as usecase
from .uploaded_files import FileUploads, content_too_large

ADDRESS = "platform/file/upload"
MAX_LENGTH = 2**53
UploadsDep = Annotated[FileUploads, Depends(wired(FileUploads))]
OCTETS = "application/octet-stream"

router = APIRouter(prefix=f"/{ADDRESS}", tags=["uploads"])


@router.post("/prepare", summary="Announce a file to be uploaded")
def prepare(
    uploads: UploadsDep,
    actor: ActorDep,
    base: BaseDep,
    file_name: Annotated[str, Query(alias="fileName")],
    content_length: Annotated[int, Query(alias="contentLength", ge=0, le=MAX_LENGTH)],
    content_type: Annotated[
        str | None, Query(alias="contentType", max_length=usecase.MAX_CONTENT_TYPE_CHARS)
    ] = None,
) -> Response:
    """Return how and where to upload the file, and the token with which to ingest it."""
    account = _uploader(actor)
    token = str(usecase.prepare(uploads, account, file_name, content_length, content_type))
    return JsonAnswer(
        {
            "uploadUrl": f"{base}{ADDRESS}/{token}",
            "method": "POST",
            "useMultipart": True,
            "headers": [["Authorization", f"Bearer {actor.bearer}"]],
            "fields": [],
            "uploadToken": token,
        }
    )


@router.post("/{token}", summary="Upload the announced file, as the part `file` of a form")
async def upload(token: str, request: Request, uploads: UploadsDep, actor: ActorDep) -> Response:
    account = _uploader(actor)
    claimed = UploadToken.parse(token)
    file = await run_in_threadpool(usecase.expected_upload, uploads, account, claimed)
    limit = uploads.max_bytes
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit + OVERHEAD_BYTES:
        raise content_too_large(limit)
    form = UploadForm(request.headers.get("content-type", ""))
    try:
        async with Body(request.receive, limit=limit + OVERHEAD_BYTES) as body:
            work = partial(usecase.take_in, uploads, file, claimed, form.file(body.chunks()))
            await request.app.state.bodies.run(caller_of(request.scope), work)
    except BodyTooLong:
        raise content_too_large(limit) from None
    return Response(b"")


@router.get("/{token}", summary="The uploaded file; knowing the token is the right to it")
def download(token: str, uploads: UploadsDep) -> Response:
    file, size = usecase.arrived_file(uploads, UploadToken.parse(token))
    kind = file.content_type if file.content_type in MEDIA_TYPES else OCTETS
    headers = {
        "content-length": str(size),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(file.file_name, safe='')}",
    }
    return StreamingResponse(usecase.content_of(uploads, file), 200, headers, kind)


def _uploader(actor: Actor) -> Account:
    """Return the account that uploads. Raises `TokenRefused`, `Unauthorized`."""
    if actor.account is None:
        raise Refused("TokenRefused", actor.reason.value)
    if not usecase.may_upload(actor):
        raise unauthorized()
    return actor.account
