"""Routes of mirrors, for maintainers of a dataset: show, change and remove its remote."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json

from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import MaintainedDep, StoresDep, wired
from . import mirrors as usecase
from .mirrors import Mirrors

MAX_BODY_BYTES = 16_384
MirrorsDep = Annotated[Mirrors, Depends(wired(Mirrors))]


class RemoteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a change. Without a token, pulls send none from now on."""

    remote: str
    token: str | None = None


def mirror(stores: StoresDep, entry: MaintainedDep) -> Response:
    """Return the remote and the outcome of the last pull. Tokens are never shown."""
    return JsonAnswer(usecase.shown(usecase.mirror_of(stores.mirrors, entry)))


async def follow(request: Request, mirrors: MirrorsDep, entry: MaintainedDep) -> Response:
    """The body is `{"remote": "odf+https://…", "token": "…"}`, the remote to follow from now on."""
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw, RemoteBody)
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput(
            "MalformedBody", 'the body has to be JSON: {"remote": "…", "token": "…"}'
        ) from None
    remote = usecase.parse_remote(asked.remote)
    await run_in_threadpool(usecase.change_remote, mirrors, entry, remote, asked.token)
    return JsonAnswer(usecase.shown(usecase.mirror_of(mirrors.stores.mirrors, entry)))


def detach(stores: StoresDep, entry: MaintainedDep) -> Response:
    """Remove the remote. The dataset keeps its data, and can be written to again."""
    usecase.detach(stores.mirrors, entry)
    return Response(status_code=204)


def add_mirror_routes(routes: APIRouter, prefix: str) -> None:
    """Serve these routes below the dataset addresses."""
    tags: list[str | Enum] = ["mirrors"]
    path = prefix + "/mirror"
    routes.get(path, summary="What the dataset follows", tags=tags)(mirror)
    routes.put(path, summary="Follow another remote", tags=tags)(follow)
    routes.delete(path, summary="Follow nothing any more", status_code=204, tags=tags)(detach)
