"""`/odata/{account}/`: the datasets of an account as a feed of OData, read only.

Source: OData Protocol 4.01; URL Conventions 4.01.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from odf_protocol.errors import BadInput, NodeError, NotFound, Refused
from odf_protocol.identity import DatasetAlias, MalformedName, Name
from odf_storage.datasets.query.messages import TableView
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.listing import list_datasets
from ..http.deps import AccessDep, ActorDep, BaseDep, wired
from ..limits.shares import caller_of
from .feed import CONTEXT, Caller, EntitySet, FeedAsked, Feeds
from .filters import filter_sql
from .model import metadata, odata_name, true_name

FOLDER = "/odata/"
ROOT = "/odata/{account}"
VERSION = {"odata-version": "4.0", "cache-control": "no-store"}
_EXACT = "ieee754compatible=true"
VIEWS = (TableView.FACTS, TableView.CHANGELOG)
Text = Annotated[str, Path(max_length=1_000)]
router = APIRouter(tags=["odata"])


def no_such_set(actor: Actor) -> NodeError:
    """No dataset of this account has this name, or none that the caller may read. Who has not
    signed in is asked to: programs like Excel show the fields for that only then."""
    if actor.is_anonymous:
        return Refused(
            "SignInNeeded",
            "no entity set has this name, or none that everybody may read; sign in with any name "
            "and, as the password, a token of `odf-node token create`",
        )
    return NotFound("NoSuchEntitySet", "no entity set has this name, or none that you may read")


def not_served(method: str, _: str) -> NodeError:
    """Return the error for a request that no route of a feed serves."""
    if method in ("GET", "HEAD"):
        return NotFound(
            "NotInFeed", "the feed has entity sets, their $count, and $metadata; not this address"
        )
    return BadInput(
        "CatalogueIsReadOnly",
        "this feed is read only: rows are added by POST …/ingest, or by a push of blocks",
    )


async def known(actor: ActorDep) -> Actor:
    """Return the actor. Raises `TokenInvalid`, `TokenExpired`."""
    refuse_bad_token(actor)
    return actor


KnownDep = Annotated[Actor, Depends(known)]
FeedsDep = Annotated[Feeds, Depends(wired(Feeds))]


@router.get(ROOT, summary="The entity sets of an account")
@router.get(ROOT + "/", include_in_schema=False)
def service_document(
    request: Request,
    actor: KnownDep,
    access: AccessDep,
    feeds: FeedsDep,
    base: BaseDep,
    account: Text,
) -> Response:
    """Return the service document."""
    entries, _ = _entries(access, actor, account, feeds.datasets)
    sets = [{"name": name, "kind": "EntitySet", "url": name} for name, _ in map(_named, entries)]
    root = f"{base}{FOLDER[1:]}{account}"
    return _json(request, {CONTEXT: f"{root}/$metadata", "value": sets})


@router.get(ROOT + "/$metadata", summary="The types of the entity sets of an account")
def types(actor: KnownDep, access: AccessDep, feeds: FeedsDep, account: Text) -> Response:
    """Return the metadata as XML. Each dataset has a set of current rows, and one of all rows."""
    entries, has_more = _entries(access, actor, account, feeds.datasets)
    sets, without = [], []
    for entry in entries:
        try:
            of = feeds.entity_set(actor, entry, "", VIEWS[0], None)
        except NodeError:  # removed meanwhile, or it cannot be read
            without.append(str(entry.alias.name))
            continue
        name = odata_name(str(entry.alias.name))
        sets += [(name, of.kind), (f"{name}{_SUFFIX}", of.kind)]
    about = f"these datasets cannot be read now: {', '.join(without)}" if without else ""
    if has_more:
        about += f" only the first {feeds.datasets} datasets are described"
    return Response(metadata(sets, about.strip()), headers=VERSION, media_type="application/xml")


@router.get(ROOT + "/{name}", summary="Rows of a dataset")
async def rows(
    request: Request,
    actor: KnownDep,
    access: AccessDep,
    feeds: FeedsDep,
    base: BaseDep,
    account: Text,
    name: Text,
) -> Response:
    """Return a page of rows. Options are $filter, $select, $orderby, $top, $skip and $count."""
    asked = FeedAsked.parse(request.query_params.multi_items())
    block = None if asked.place is None else asked.place.block
    of = await run_in_threadpool(_set, feeds, access, actor, account, name, block)
    url = f"{base}{FOLDER[1:]}{account}/{name}"
    caller = Caller(actor, caller_of(request.scope))
    told = await feeds.page(of, asked, url, caller, exact=_is_exact(request))
    return _json(request, told)


@router.get(ROOT + "/{name}/$count", summary="The number of rows of a dataset")
async def count(
    request: Request, actor: KnownDep, access: AccessDep, feeds: FeedsDep, account: Text, name: Text
) -> Response:
    """Return the number of rows that meet `$filter`."""
    asked = FeedAsked.parse(request.query_params.multi_items())
    of = await run_in_threadpool(_set, feeds, access, actor, account, name, None)
    where = [filter_sql(asked.filter, of.kind.by_name)] if asked.filter else []
    found = await feeds.count(of, where, Caller(actor, caller_of(request.scope)))
    return PlainTextResponse(str(found), headers=VERSION)


_SUFFIX = odata_name(f"@{TableView.CHANGELOG}")


def _named(entry: DatasetEntry) -> tuple[str, DatasetEntry]:
    return odata_name(str(entry.alias.name)), entry


def _entries(
    access: DatasetAccess, actor: Actor, account: str, most: int
) -> tuple[list[DatasetEntry], bool]:
    """Return datasets of the account, and whether it has more. Raises `NoSuchEntitySet`,
    `SignInNeeded`."""
    found, after = list(_pages(access, actor, account, most)), None
    if not found:
        raise no_such_set(actor)
    return found[:most], len(found) > most or after is not None


def _pages(access: DatasetAccess, actor: Actor, account: str, most: int) -> Iterator[DatasetEntry]:
    after, count = None, 0
    while count <= most:
        page, after = list_datasets(access, actor, account=account, after=after, limit=most + 1)
        yield from page
        count += len(page)
        if after is None:
            return


def _set(
    feeds: Feeds, access: DatasetAccess, actor: Actor, account: str, name: str, block: str | None
) -> EntitySet:
    """Return the entity set of an address. Raises `NoSuchEntitySet`, `SignInNeeded`."""
    plain, _, view = true_name(name).partition("@")
    if view not in ("", TableView.CHANGELOG):
        raise no_such_set(actor)
    try:
        alias = DatasetAlias(Name(plain), Name(account))
    except MalformedName:
        raise no_such_set(actor) from None
    entry = access.entries.find(alias)
    if entry is None or not access.may_read(actor, entry):
        raise no_such_set(actor)
    return feeds.entity_set(actor, entry, name, TableView(view or VIEWS[0]), block)


def _is_exact(request: Request) -> bool:
    told = request.headers.get("accept", "") + request.query_params.get("$format", "")
    return _EXACT in told.lower()


def _json(request: Request, told: dict[str, Any]) -> Response:
    exact = ";IEEE754Compatible=true" if _is_exact(request) else ""
    kind = f"application/json;odata.metadata=minimal{exact}"
    return Response(msgspec.json.encode(told), headers=VERSION, media_type=kind)
