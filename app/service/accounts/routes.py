"""Who is here: node information, the caller's account, dataset ids, token validation."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from odf_node.protocol.errors import BadInput, NotFound, Refused
from odf_node.protocol.identity import DatasetId, DatasetRef
from odf_node.storage.stores.ports.values import DatasetEntry

from ..auth.access import Action, Unauthenticated, grants, refuse_bad_token
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.deps import ActorDep
from ..settings import Tenancy
from ..wiring import Node, NodeDep
from .accounts import find_account

router = APIRouter(tags=["identity"])


class DatasetIdUnknown(NotFound):
    """No dataset of that id, or none that this actor may know of."""

    def __init__(self) -> None:
        super().__init__("Not Found")


class TokenRefused(Refused):
    """The token shown is not valid, or none was shown."""


@router.get("/info", summary="Tenancy of the node")
async def info(node: NodeDep) -> Response:
    return JsonAnswer({"isMultiTenant": node.settings.tenancy is Tenancy.MULTI})


@router.get("/accounts/me", summary="Account of the token")
async def me(actor: ActorDep) -> Response:
    if actor.account is None:
        raise Unauthenticated
    return JsonAnswer({"id": actor.account.id, "accountName": actor.account.name})


@router.get("/accounts/{name}", summary="An account by its name")
def account_by_name(name: str, node: NodeDep, actor: ActorDep) -> Response:
    """For those who have an account themselves."""
    if actor.account is None:
        raise Unauthenticated
    found = find_account(node.stores.accounts, name)
    return JsonAnswer({"id": found.id, "accountName": found.name})


@router.get("/platform/token/validate", summary="Whether the token is valid")
async def validate(actor: ActorDep) -> Response:
    if actor.is_anonymous:
        raise TokenRefused(actor.reason.value)
    return Response(b"")


@router.get("/datasets/{id}", summary="Name and owner of a dataset by its id")
def dataset_by_id(id: str, node: NodeDep, actor: ActorDep) -> Response:  # noqa: A002
    entry = find_by_id(node, actor, id)
    owner = node.stores.accounts.find_account(str(entry.alias.account))
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


def find_by_id(node: Node, actor: Actor, text: str) -> DatasetEntry:
    """Raises `DatasetIdUnknown`: no id, not here, or hidden from this actor; as `authorize`."""
    try:
        entry = node.stores.registry.find(DatasetRef(id=DatasetId.parse(text)))
    except BadInput:
        entry = None
    if entry is None or Action.READ not in grants(actor, entry, node.settings.anonymous_reads):
        raise DatasetIdUnknown
    refuse_bad_token(actor)
    return entry
