"""Quotas of storage: what datasets take, and who may set how much that is.

Stores refuse what does not fit (`stores/index/sql_sizes.py`). Here people see and set the limits.
"""

from __future__ import annotations

from typing import Any

import msgspec
from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.index.sql_sizes import NODE, Usage
from odf_storage.stores.ports.values import Account

from ..auth.access import Unauthenticated, require_admin
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, StoresDep
from .accounts import find_account, require_session

MAX_BODY_BYTES = 4096
MAX_QUOTA = 2**60
UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
NO_LIMIT = "none"

router = APIRouter(tags=["identity"])


class NewQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to set a quota; None removes it."""

    bytes: int | None


def parse_quota(text: str) -> int | None:
    """Return the bytes of a text as `500 MB`; None for `none`. Raises `MalformedQuota`."""
    word = text.strip().upper()
    if word == NO_LIMIT.upper():
        return None
    unit = next((unit for unit in UNITS if word.endswith(unit)), "")
    number = word.removesuffix(unit).strip()
    if not (number.isascii() and number.isdigit() and len(number) <= 19):
        raise _malformed(text)
    return _checked(int(number) * UNITS.get(unit, 1))


def _checked(limit: int | None) -> int | None:
    if limit is not None and not 0 <= limit <= MAX_QUOTA:
        raise _malformed(str(limit))
    return limit


def _malformed(text: str) -> BadInput:
    return BadInput(
        "MalformedQuota",
        f"{text[:40]!r} is no quota; write a whole number of bytes up to 2^60, or as 500 MB, "
        f"20 GB or 2 TB, or {NO_LIMIT}",
    )


def usage_of(stores: Stores, actor: Actor, name: str) -> dict[str, Any]:
    """Return what an account takes, to itself and to administrators.

    Raises:
        Unauthenticated, Unauthorized, AccountUnknown.
    """
    if actor.account is None:
        raise Unauthenticated
    if actor.account.name.lower() != name.lower():
        require_admin(actor)
    return shown(find_account(stores.accounts, name).name, stores.quotas.usage(name))


def set_quota(stores: Stores, actor: Actor, name: str, limit: int | None) -> Account:
    """Set the quota of an account, which may be below what it takes already.

    Raises:
        Unauthenticated, Unauthorized, AccountUnknown, MalformedQuota.
    """
    require_session(actor)
    account = find_account(stores.accounts, name)
    add_facts(account=account.name, bytes=NO_LIMIT if limit is None else str(limit))
    stores.quotas.set_limit(account.id, _checked(limit))
    return account


def shown(name: str, usage: Usage) -> dict[str, Any]:
    """Return the usage of an account, or of the node, as a JSON object."""
    return {
        **({} if name == NODE else {"accountName": name}),
        "usedBytes": usage.used,
        "limitBytes": usage.limit,
        "uncountedDatasets": usage.uncounted,
    }


@router.get("/accounts/{name}/quota", summary="What the datasets of an account take and may take")
def get_quota(name: str, stores: StoresDep, actor: ActorDep) -> Response:
    """Requires the account itself, or an administrator."""
    return JsonAnswer(usage_of(stores, actor, name))


@router.put("/accounts/{name}/quota", summary="Set the quota of an account")
async def put_quota(name: str, request: Request, stores: StoresDep, actor: ActorDep) -> Response:
    """The body is `{"bytes": …}`, null for none. Requires the session of an administrator."""
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw, NewQuota)
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput("MalformedQuota", 'the body has to be JSON: {"bytes": …}') from None
    await to_thread.run_sync(set_quota, stores, actor, name, asked.bytes)
    return JsonAnswer(await to_thread.run_sync(usage_of, stores, actor, name))
