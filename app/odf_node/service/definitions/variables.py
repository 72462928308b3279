"""Variables and secrets for templates of sources, which belong to a dataset or an account.

The node never shows a secret again. An account that may define a source of a dataset decides where
the values are sent, so secrets of an account apply only to datasets that it owns.

Routes for variables and secrets: those of a dataset, and those of the caller's account.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports.following import MIRROR_TOKEN
from odf_storage.stores.ports.values import Scope, Variable
from odf_storage.stores.ports.webhooks import WEBHOOK_SECRET
from odf_storage.stores.registers.accounts.sealing import SecretKeys
from odf_storage.stores.registers.datasets.schedules import Variables
from odf_storage.stores.registers.signed.dataset_keys import NAME as DATASET_KEY
from odf_storage.stores.registers.signed.node_key import reseal_node_seed

from ..auth.access import Unauthenticated, unauthorized
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, MaintainedDep, StoresDep, wired

MAX_VARIABLES = 200
MAX_VALUE_CHARS = 32 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class VariableBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: str
    secret: bool = True


def read_body(content: bytes) -> VariableBody:
    """Parse the body. Raises `MalformedVariable`, whose message does not repeat the content."""
    try:
        body = decode_json(content, VariableBody)
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput(
            "MalformedVariable", 'the body has to be JSON: {"value": "…", "secret": true or false}'
        ) from None
    if len(body.value) > MAX_VALUE_CHARS:
        raise BadInput("MalformedVariable", f"a value has at most {MAX_VALUE_CHARS} characters")
    return body


@dataclass(frozen=True)
class NodeVariables:
    """The variables of a node, and the keys that seal its secrets."""

    store: Variables
    keys: SecretKeys
    clock: Clock


def set_variable(variables: NodeVariables, owner: str, name: str, body: VariableBody) -> Variable:
    """Add or replace a variable. Raises `MalformedVariable`, `TooManyVariables`."""
    if not _NAME.fullmatch(name):
        raise BadInput("MalformedVariable", "a name has 1 to 100 letters, digits, _ and -")
    known = variables.store.of_owner(owner)
    if name not in known and len(known) >= MAX_VARIABLES:
        raise LimitExceeded(
            "TooManyVariables", f"there may be {MAX_VARIABLES} variables", limit=MAX_VARIABLES
        )
    now = variables.clock()
    if body.secret:
        variable = variables.keys.sealed(owner, name, body.value, at=now)
    else:
        value = body.value.encode()
        variable = Variable(name=name, is_secret=False, value=value, updated_at=now)
    variables.store.put(owner, variable)
    return variable


def list_variables(store: Variables, owner: str) -> list[dict[str, Any]]:
    """List the variables of an owner by name, without the values of secrets."""
    return [shown(each) for each in store.of_owner(owner).values()]


def remove_variable(store: Variables, owner: str, name: str) -> None:
    """Remove a variable. Raises `VariableNotFound`."""
    if not store.remove(owner, name):
        raise NotFound("VariableNotFound", f"there is no variable {name[:100]!r}")


def shown(variable: Variable) -> dict[str, Any]:
    """Return a variable as JSON, without the value of a secret."""
    return {
        "name": variable.name,
        "secret": variable.is_secret,
        "value": None if variable.is_secret else variable.value.decode(),
        "updatedAt": str(variable.updated_at),
    }


def reseal(stores: Stores, keys: SecretKeys) -> int:
    """Seal all that the node keeps sealed with the newest key: variables, its own key and those of
    datasets, tokens of mirrors, secrets of webhooks. Return how many were changed.

    Raises `SecretUnreadable`.
    """
    changed, store = reseal_node_seed(stores.accounts, keys), stores.variables
    for dataset in stores.dataset_keys.all():
        sealed = stores.dataset_keys.find(dataset)
        if sealed and (new := keys.renewed(str(dataset), DATASET_KEY, sealed)):
            stores.dataset_keys.put(dataset, new)
            changed += 1
    for mirror in stores.mirrors.sealed():
        if new := keys.renewed(mirror.token_owner, MIRROR_TOKEN, mirror.sealed_token or b""):
            changed += stores.mirrors.reseal(mirror, new)
    for webhook in stores.webhooks.all():
        if new := keys.renewed(webhook.secret_owner, WEBHOOK_SECRET, webhook.sealed_secret):
            stores.webhooks.reseal(webhook.id, new)
            changed += 1
    for owner in store.owners():
        for variable in store.of_owner(owner).values():
            if variable.is_secret and variable.key_id != keys.newest:
                text = keys.opened(owner, variable)
                again = keys.sealed(owner, variable.name, text, at=variable.updated_at)
                store.put(owner, again)
                changed += 1
    return changed


MAX_BODY_BYTES = 256 * 1024
VariablesDep = Annotated[NodeVariables, Depends(wired(NodeVariables))]

router = APIRouter(prefix="/accounts/me/variables", tags=["variables"])


@router.get("", summary="One's own variables; secrets without their values")
def mine(stores: StoresDep, actor: ActorDep) -> Response:
    return JsonAnswer({"variables": list_variables(stores.variables, _owner(actor))})


@router.put("/{name}", summary="Set one of one's own variables")
async def set_mine(
    name: str, request: Request, variables: VariablesDep, actor: ActorDep
) -> Response:
    """Set `{"value": "…", "secret": true}` for all datasets that the account owns."""
    owner = _owner(actor)
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    return JsonAnswer(shown(await run_in_threadpool(set_variable, variables, owner, name, body)))


@router.delete("/{name}", status_code=204, summary="Remove one of one's own variables")
def remove_mine(name: str, stores: StoresDep, actor: ActorDep) -> Response:
    remove_variable(stores.variables, _owner(actor), name)
    return Response(status_code=204)


def variables(stores: StoresDep, entry: MaintainedDep) -> Response:
    """List the variables of the dataset; secrets without their values."""
    return JsonAnswer({"variables": list_variables(stores.variables, str(entry.id))})


async def set_one(
    name: str, request: Request, variables: VariablesDep, entry: MaintainedDep
) -> Response:
    """Set `{"value": "…", "secret": true}`; it overrides the account's variable of this name."""
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    owner = str(entry.id)
    return JsonAnswer(shown(await run_in_threadpool(set_variable, variables, owner, name, body)))


def remove_one(name: str, stores: StoresDep, entry: MaintainedDep) -> Response:
    remove_variable(stores.variables, str(entry.id), name)
    return Response(status_code=204)


def add_variable_routes(routes: APIRouter, prefix: str) -> None:
    """Add the routes for variables of datasets below their addresses."""
    tags: list[str | Enum] = ["variables"]
    all_, one = prefix + "/variables", prefix + "/variables/{name}"
    routes.get(all_, summary="Variables of a dataset", tags=tags)(variables)
    routes.put(one, summary="Set a variable or secret of a dataset", tags=tags)(set_one)
    routes.delete(one, summary="Remove one", status_code=204, tags=tags)(remove_one)


def _owner(actor: Actor) -> str:
    """Return the id of the caller's account.

    Raises:
        Unauthenticated: the caller is anonymous. Unauthorized: its token may not manage.
    """
    if actor.account is None:
        raise Unauthenticated
    if not actor.may(Scope.MANAGE):
        raise unauthorized()
    return str(actor.account.id)
