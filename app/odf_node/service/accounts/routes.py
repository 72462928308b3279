"""Routes of identity: node information, accounts, dataset ids, token validation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from odf_protocol.errors import BadInput, NotFound, Refused
from odf_protocol.identity import DatasetId
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import Unauthenticated, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.answers import JsonAnswer
from ..http.deps import AccessDep, ActorDep, SettingsDep, StoresDep, wired
from ..http.parameters import KNOWN_PARAMETERS
from ..setting_groups.words import Tenancy
from . import accounts
from .accounts import Administration, find_account

AdministrationDep = Annotated[Administration, Depends(wired(Administration))]

router = APIRouter(tags=["identity"])


@router.get("/info", summary="Tenancy of the node")
async def info(settings: SettingsDep) -> Response:
    return JsonAnswer({"isMultiTenant": settings.tenancy is Tenancy.MULTI})


@router.get("/accounts/me", summary="Account of the token")
async def me(actor: ActorDep) -> Response:
    if actor.account is None:
        raise Unauthenticated
    return JsonAnswer({"id": actor.account.id, "accountName": actor.account.name})


@router.get("/accounts/{name}", summary="An account by its name")
def account_by_name(name: str, stores: StoresDep, actor: ActorDep) -> Response:
    """Return an account. The caller must have an account."""
    if actor.account is None:
        raise Unauthenticated
    found = find_account(stores.accounts, name)
    return JsonAnswer({"id": found.id, "accountName": found.name})


@router.put(
    "/accounts/{name}/disabled",
    status_code=204,
    summary="Disable an account",
    dependencies=KNOWN_PARAMETERS,
)
def disable(name: str, its: AdministrationDep, actor: ActorDep) -> Response:
    """Refuse its tokens and sessions from now on. Requires an administrator, and not itself."""
    accounts.disable(its, actor, name)
    return Response(status_code=204)


@router.delete(
    "/accounts/{name}/disabled",
    status_code=204,
    summary="Enable an account again",
    dependencies=KNOWN_PARAMETERS,
)
def enable(name: str, its: AdministrationDep, actor: ActorDep) -> Response:
    """Requires the session of an administrator, not a token."""
    accounts.enable(its, actor, name)
    return Response(status_code=204)


@router.get("/platform/token/validate", summary="Whether the token is valid")
async def validate(actor: ActorDep) -> Response:
    if actor.is_anonymous:
        raise Refused("TokenRefused", actor.reason.value)
    return Response(b"")


@router.get("/datasets/{id}", summary="Name and owner of a dataset by its id")
def dataset_by_id(
    id: str,  # noqa: A002
    stores: StoresDep,
    access: AccessDep,
    actor: ActorDep,
) -> Response:
    entry = find_by_id(access, actor, id)
    owner = stores.accounts.find_account(str(entry.alias.account))
    return JsonAnswer(
        {
            "id": str(entry.id),
            "owner": {
                "accountName": str(entry.alias.account),
                "accountId": owner.id if owner else None,
            },
            "datasetName": str(entry.alias.name),
        }
    )


def find_by_id(access: DatasetAccess, actor: Actor, text: str) -> DatasetEntry:
    """Return the dataset with this id, if the actor may read it.

    Raises:
        DatasetIdUnknown: the text is no id, or the dataset is not here or hidden from the actor.
        TokenInvalid, TokenExpired: everybody may read the dataset, but the token is bad.
    """
    try:
        entry = access.visible(actor, DatasetId.parse(text))
    except BadInput:
        entry = None
    if entry is None:
        raise NotFound("DatasetIdUnknown", "Not Found")
    refuse_bad_token(actor)
    return entry
