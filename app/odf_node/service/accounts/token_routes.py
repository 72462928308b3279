"""Routes for the caller's own access tokens: list, create and revoke them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json

from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, wired
from . import accounts as usecase
from .accounts import OwnTokens, TokenAsked

MAX_BODY_BYTES = 4096
NO_STORE = {"cache-control": "no-store"}
TokensDep = Annotated[OwnTokens, Depends(wired(OwnTokens))]

router = APIRouter(prefix="/accounts/me/tokens", tags=["identity"])


@router.get("", summary="One's own tokens, without their secrets")
def mine(tokens: TokensDep, actor: ActorDep) -> Response:
    return JsonAnswer({"tokens": usecase.list_tokens(tokens, actor)}, headers=NO_STORE)


@router.post("", status_code=201, summary="Make a token for oneself")
async def make(request: Request, tokens: TokensDep, actor: ActorDep) -> Response:
    """Requires a session, not a token. Only this response contains the text of the token."""
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw or b"{}", TokenAsked)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput(
            "MalformedTokenRequest", f"the body is no request for a token: {bad}"
        ) from None
    made = await run_in_threadpool(usecase.make_token, tokens, actor, asked)
    return JsonAnswer(made, 201, NO_STORE)


@router.delete("/{id}", status_code=204, summary="Revoke one of one's own tokens")
def revoke(id: str, tokens: TokensDep, actor: ActorDep) -> Response:  # noqa: A002
    usecase.revoke_token(tokens, actor, id)
    return Response(status_code=204)
