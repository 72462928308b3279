"""Routes by which administrators change accounts: rights, names, deletion."""

from __future__ import annotations

from typing import Annotated

import msgspec
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json

from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, wired
from . import membership
from .membership import FateOfDatasets, Membership

MAX_BODY_BYTES = 4096
MembershipDep = Annotated[Membership, Depends(wired(Membership))]
To = Annotated[str | None, Query(max_length=100)]

router = APIRouter(tags=["identity"])


class NewName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to rename an account."""

    name: str


@router.put("/accounts/{name}/admin", status_code=204, summary="Make it an administrator")
def promote(name: str, its: MembershipDep, actor: ActorDep) -> Response:
    """Requires the session of an administrator, not a token."""
    membership.promote(its, actor, name, is_admin=True)
    return Response(status_code=204)


@router.delete("/accounts/{name}/admin", status_code=204, summary="Make it a user again")
def demote(name: str, its: MembershipDep, actor: ActorDep) -> Response:
    """Requires the session of another administrator, not a token."""
    membership.promote(its, actor, name, is_admin=False)
    return Response(status_code=204)


@router.put("/accounts/{name}/name", summary="Rename an account and the addresses of its datasets")
async def rename(name: str, request: Request, its: MembershipDep, actor: ActorDep) -> Response:
    """The body is `{"name": …}`. Requires the session of an administrator."""
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw, NewName)
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput("MalformedNewName", 'the body has to be JSON: {"name": …}') from None
    changed = await to_thread.run_sync(membership.rename, its, actor, name, asked.name)
    return JsonAnswer({"id": changed.id, "accountName": changed.name})


@router.get("/accounts/{name}/deletion", summary="What the deletion of an account would do")
def look(
    name: str,
    its: MembershipDep,
    actor: ActorDep,
    datasets: FateOfDatasets = FateOfDatasets.KEEP,
    to: To = None,
) -> Response:
    """Changes nothing. Requires an administrator."""
    return JsonAnswer(membership.look(its, actor, name, datasets, to).to_data())


@router.delete("/accounts/{name}", summary="Delete an account")
def delete(
    name: str, its: MembershipDep, actor: ActorDep, datasets: FateOfDatasets, to: To = None
) -> Response:
    """Requires the session of another administrator, not a token."""
    return JsonAnswer(membership.delete(its, actor, name, datasets, to).to_data())
