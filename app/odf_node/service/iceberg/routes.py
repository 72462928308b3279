"""`/iceberg`: a read-only Iceberg REST catalogue, by which clients read datasets as tables.

Source: Iceberg REST catalog, `open-api/rest-catalog-open-api.yaml`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput, NodeError, NotFound

from ..auth.access import refuse_bad_token
from ..auth.actors import ANONYMOUS, Actor
from ..http.answers import HEADERS_ONLY, JsonAnswer
from ..http.deps import AccessDep, ActorDep, BaseDep, wired
from ..http.parameters import MAX_PAGE
from ..limits.shares import caller_of
from ..sharing.names import VIEWS, NotShared, SharedTable, Shares, TableRenamed
from .tables import IcebergTables

FOLDER = "/iceberg/"
ROOT = "/iceberg/v1"
NAMESPACES = ROOT + "/{prefix}/namespaces"
NAMESPACE = NAMESPACES + "/{namespace}"
TABLES = NAMESPACE + "/tables"
TABLE = TABLES + "/{table}"
DEFAULT = next(iter(VIEWS))
Text = Annotated[str, Path(max_length=400)]
Token = Annotated[str | None, Query(alias="pageToken", max_length=2_000)]
router = APIRouter(tags=["iceberg"])


def no_such_table(renamed: TableRenamed | None = None) -> NotFound:
    """There is no dataset with this name that the caller may read; who may read the one that had
    the name before is told its name of today."""
    return NotFound(
        "NoSuchTable",
        "no table has this name, or none that you may read"
        if renamed is None
        else f"the table was renamed to {renamed.share}.{renamed.table}",
    )


def not_served(method: str, path: str) -> NodeError:
    """Return the error for a request that no route of the catalogue serves."""
    if method in ("GET", "HEAD"):
        return NotFound("NotInCatalogue", f"the catalogue has nothing at {path[:200]}")
    return BadInput(
        "CatalogueIsReadOnly",
        "this catalogue is read only: rows are added by POST …/ingest, or by a push of blocks",
    )


NO_TOKEN = "None"  # noqa: S105
"""The token that pyiceberg sends if it has none."""


async def known(actor: ActorDep) -> Actor:
    """Return the actor. Raises `TokenInvalid`, `TokenExpired`."""
    if actor.bearer == NO_TOKEN:
        return ANONYMOUS
    refuse_bad_token(actor)
    return actor


async def shares_of(access: AccessDep) -> Shares:
    return Shares(access)


async def view_of(prefix: Text) -> str:
    """Return the view in the address. Raises `NoSuchWarehouse`."""
    if prefix not in VIEWS:
        raise NotFound("NoSuchWarehouse", f"the warehouses of this node are {', '.join(VIEWS)}")
    return prefix


async def page_size(most: Annotated[int | None, Query(alias="pageSize", ge=1)] = None) -> int:
    """Return the limit of items on a page."""
    return MAX_PAGE if most is None else min(most, MAX_PAGE)


KnownDep = Annotated[Actor, Depends(known)]
SharesDep = Annotated[Shares, Depends(shares_of)]
ViewDep = Annotated[str, Depends(view_of)]
SizeDep = Annotated[int, Depends(page_size)]
TablesDep = Annotated[IcebergTables, Depends(wired(IcebergTables))]


async def table_of(
    actor: KnownDep, shares: SharesDep, view: ViewDep, namespace: Text, table: Text
) -> SharedTable:
    """Return the table in the address. Raises `NoSuchTable`."""
    try:
        return await run_in_threadpool(shares.table, actor, namespace, view, table)
    except TableRenamed as renamed:
        raise no_such_table(renamed) from None
    except NotShared:
        raise no_such_table() from None


TableDep = Annotated[SharedTable, Depends(table_of)]


@router.get(ROOT + "/config", summary="What a client of the catalogue begins with")
async def config(
    _: KnownDep, warehouse: Annotated[str | None, Query(max_length=400)] = None
) -> Response:
    """Return the configuration for a warehouse, which is a view of all datasets."""
    view = await view_of(warehouse or DEFAULT)
    told = {"defaults": {}, "overrides": {"prefix": view}, "endpoints": ENDPOINTS}
    return JsonAnswer(told)


@router.get(NAMESPACES, summary="Accounts with datasets that the caller may read")
def list_namespaces(
    actor: KnownDep,
    shares: SharesDep,
    _: ViewDep,
    size: SizeDep,
    token: Token = None,
    parent: Annotated[str | None, Query(max_length=400)] = None,
) -> Response:
    """Return the accounts as namespaces. A namespace has no child namespaces."""
    if parent:
        _namespace(shares, actor, parent)
        return JsonAnswer({"namespaces": []})
    items, after = shares.shares(actor, token=token, limit=size)
    return _page({"namespaces": [[each["name"]] for each in items]}, after)


@router.get(NAMESPACE, summary="One of them")
def get_namespace(
    request: Request, actor: KnownDep, shares: SharesDep, _: ViewDep, namespace: Text
) -> Response:
    name = _namespace(shares, actor, namespace)
    return _there(request) or JsonAnswer({"namespace": [name], "properties": {}})


@router.get(TABLES, summary="Its datasets")
def list_tables(
    actor: KnownDep,
    shares: SharesDep,
    view: ViewDep,
    size: SizeDep,
    namespace: Text,
    token: Token = None,
) -> Response:
    name = _namespace(shares, actor, namespace)
    items, after = shares.tables(actor, name, view, token=token, limit=size)
    named = [{"namespace": [name], "name": each["name"]} for each in items]
    return _page({"identifiers": named}, after)


@router.get(TABLE, summary="A dataset as a table, with keys to its files")
async def load_table(
    request: Request,
    tables: TablesDep,
    table: TableDep,
    view: ViewDep,
    base: BaseDep,
    snapshots: Literal["all", "refs"] = "all",
) -> Response:
    """Return the table. With `all`, it has the newest snapshots up to a limit; with `refs`, only
    the newest one."""
    there = _there(request)
    if there is not None:
        return there
    caller, only_newest = caller_of(request.scope), snapshots == "refs"
    told = await tables.load(table.entry, view, caller, only_newest=only_newest)
    prefix, properties = tables.credentials(table, base)
    stored = {"storage-credentials": [{"prefix": prefix, "config": properties}]}
    return JsonAnswer({**told, "config": properties, **stored}, headers=NOT_KEPT)


@router.get(TABLE + "/credentials", summary="Keys to the files of a table")
async def credentials(tables: TablesDep, table: TableDep, base: BaseDep) -> Response:
    """Return new keys, for clients whose keys expire."""
    prefix, properties = tables.credentials(table, base)
    told = {"storage-credentials": [{"prefix": prefix, "config": properties}]}
    return JsonAnswer(told, headers=NOT_KEPT)


NOT_KEPT = {"cache-control": "no-store"}
ENDPOINTS = [
    *(f"GET {path.replace('/iceberg', '')}" for path in (NAMESPACES, NAMESPACE, TABLES, TABLE)),
    *(f"HEAD {path.replace('/iceberg', '')}" for path in (NAMESPACE, TABLE)),
    f"GET {TABLE.replace('/iceberg', '')}/credentials",
]
"""The supported endpoints. Clients that get this list use no others."""


def _namespace(shares: Shares, actor: Actor, name: str) -> str:
    """Return the name of a namespace in its original spelling. Raises `NoSuchNamespace`."""
    try:
        told: str = shares.share(actor, name)["name"]
    except NotShared:
        raise NotFound(
            "NoSuchNamespace", "no namespace has this name, or none in which you may read"
        ) from None
    return told


def _there(request: Request) -> Response | None:
    """Return the response to HEAD, which only checks existence; None for other requests."""
    if request.scope.get("state", {}).get(HEADERS_ONLY):
        return Response(status_code=204)
    return None


def _page(told: dict[str, Any], after: str | None) -> Response:
    return JsonAnswer(told | ({} if after is None else {"next-page-token": after}))
