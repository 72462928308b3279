"""Routes below `/delta-sharing` for clients of Delta Sharing. Source: Delta Sharing protocol.

Profile files, with which a client of Delta Sharing reaches this node by a token.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.typed import decode_json

from ..auth.access import refuse_bad_token
from ..auth.actors import Actor
from ..auth.signed_urls import SignedUrls
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import AccessDep, ActorDep, BaseDep, StoresDep, wired
from ..http.parameters import MAX_PAGE
from ..limits.shares import caller_of
from ..projections.gateway import file_answer
from .changes import ChangeFeeds, ChangeSpan, find_changed_file
from .lines import HEADER, Capabilities, encoded
from .names import Page, SharedTable, Shares, token_missing
from .tables import SharedTables, Told, WantedFiles, When, hints_of

FILE_NAME = "config.share"


def profile_of(base: str, bearer: str) -> dict[str, Any]:
    """Return a profile of version 1, which every client reads. `base` has a slash at the end."""
    return {
        "shareCredentialsVersion": 1,
        "endpoint": f"{base}delta-sharing/",
        "bearerToken": bearer,
    }


ROOT = "/delta-sharing"
VERSION = "delta-table-version"
LINES = "application/x-ndjson; charset=utf-8"
MAX_BODY_BYTES = 1 << 20
MOST = 2**63 - 1
Text = Annotated[str, Path(max_length=400)]


async def known(actor: ActorDep) -> Actor:
    """Return the signed-in actor. Raises `TokenMissing`, `TokenInvalid`, `TokenExpired`."""
    refuse_bad_token(actor)
    if actor.account is None:
        raise token_missing()
    return actor


async def shares_of(access: AccessDep) -> Shares:
    return Shares(access)


KnownDep = Annotated[Actor, Depends(known)]
SharesDep = Annotated[Shares, Depends(shares_of)]
TablesDep = Annotated[SharedTables, Depends(wired(SharedTables))]
FeedsDep = Annotated[ChangeFeeds, Depends(wired(ChangeFeeds))]
UrlsDep = Annotated[SignedUrls, Depends(wired(SignedUrls))]
Token = Annotated[str | None, Query(alias="pageToken", max_length=2_000)]


async def page_size(
    most: Annotated[int | None, Query(alias="maxResults", ge=1)] = None,
) -> int:
    """Return the limit of items on a page."""
    return MAX_PAGE if most is None else min(most, MAX_PAGE)


SizeDep = Annotated[int, Depends(page_size)]


async def shared_table(
    actor: KnownDep, shares: SharesDep, share: Text, schema: Text, table: Text
) -> SharedTable:
    """Return the table of the address. Raises `NotShared`."""
    return await run_in_threadpool(shares.table, actor, share, schema, table)


async def capabilities(
    told: Annotated[str | None, Header(alias=HEADER, max_length=4_000)] = None,
) -> Capabilities:
    return Capabilities.parse(told)


TableDep = Annotated[SharedTable, Depends(shared_table)]
CanDep = Annotated[Capabilities, Depends(capabilities)]
TABLE = ROOT + "/shares/{share}/schemas/{schema}/tables/{table}"
router = APIRouter(tags=["delta sharing"])


class TableQuery(msgspec.Struct, rename="camel"):
    """The body of a query; unknown members are ignored."""

    limit_hint: Annotated[int, msgspec.Meta(ge=0)] | None = None
    version: Annotated[int, msgspec.Meta(ge=0, le=MOST)] | None = None
    timestamp: str | None = None
    json_predicate_hints: str | None = None
    predicate_hints: list[str] = []


@router.get(ROOT + "/profile", summary="The profile file of the caller's token")
def profile(actor: KnownDep, base: BaseDep) -> Response:
    """Return a profile file with the address of the node and the token of the request."""
    headers = {
        "content-disposition": f'attachment; filename="{FILE_NAME}"',
        "cache-control": "no-store",
    }
    return JsonAnswer(profile_of(base, actor.bearer or ""), headers=headers)


@router.get(ROOT + "/shares", summary="Accounts with datasets that the caller may read")
def list_shares(
    actor: KnownDep,
    shares: SharesDep,
    size: SizeDep,
    token: Token = None,
) -> Response:
    return _page(shares.shares(actor, token=token, limit=size))


@router.get(ROOT + "/shares/{share}", summary="One of them")
def get_share(actor: KnownDep, shares: SharesDep, share: Text) -> Response:
    return JsonAnswer({"share": shares.share(actor, share)})


@router.get(ROOT + "/shares/{share}/schemas", summary="Views of its datasets")
def list_schemas(actor: KnownDep, shares: SharesDep, share: Text) -> Response:
    """List all schemas on one page: they are few."""
    return JsonAnswer({"items": shares.schemas(actor, share)})


@router.get(ROOT + "/shares/{share}/schemas/{schema}/tables", summary="Tables of a view")
def list_tables(
    actor: KnownDep,
    shares: SharesDep,
    size: SizeDep,
    share: Text,
    schema: Text,
    token: Token = None,
) -> Response:
    return _page(shares.tables(actor, share, schema, token=token, limit=size))


@router.get(ROOT + "/shares/{share}/all-tables", summary="Tables of all views")
def list_all_tables(
    actor: KnownDep,
    shares: SharesDep,
    size: SizeDep,
    share: Text,
    token: Token = None,
) -> Response:
    return _page(shares.all_tables(actor, share, token=token, limit=size))


@router.get(TABLE + "/version", summary="The newest version of a table")
async def version(
    request: Request,
    tables: TablesDep,
    table: TableDep,
    since: Annotated[str | None, Query(alias="startingTimestamp", max_length=100)] = None,
) -> Response:
    """Return the newest version, or the oldest one since a time."""
    number = await tables.newest(table, caller_of(request.scope), since=_time(since))
    return Response(headers={VERSION: str(number)})


@router.get(TABLE + "/metadata", summary="Schema and identity of a table")
async def metadata(request: Request, tables: TablesDep, table: TableDep, can: CanDep) -> Response:
    return _answer(await tables.metadata(table, can, caller_of(request.scope)))


@router.post(TABLE + "/query", summary="The files of a table, at URLs that need no token")
async def query(
    request: Request, tables: TablesDep, table: TableDep, can: CanDep, base: BaseDep
) -> Response:
    """List files as of a version or a time; hints may omit files without wanted rows."""
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw or b"{}", TableQuery)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput("MalformedBody", f"the query cannot be read: {str(bad)[:300]}") from None
    is_hinted = bool(asked.json_predicate_hints or asked.predicate_hints)
    wanted = WantedFiles(
        when=When(version=asked.version, timestamp=_time(asked.timestamp)),
        limit=asked.limit_hint,
        hints=hints_of(asked.json_predicate_hints, asked.predicate_hints) if is_hinted else None,
    )
    return _answer(await tables.files(table, wanted, can, base, caller_of(request.scope)))


@router.get(TABLE + "/changes", summary="Rows that versions of a table added, and took back")
async def changes(
    request: Request,
    feeds: FeedsDep,
    table: TableDep,
    can: CanDep,
    base: BaseDep,
    first: Annotated[int | None, Query(alias="startingVersion", ge=0, le=MOST)] = None,
    last: Annotated[int | None, Query(alias="endingVersion", ge=0, le=MOST)] = None,
    since: Annotated[str | None, Query(alias="startingTimestamp", max_length=100)] = None,
    until: Annotated[str | None, Query(alias="endingTimestamp", max_length=100)] = None,
) -> Response:
    """List changes in a range of versions, both ends included; by default up to the newest."""
    span = ChangeSpan(
        first=When(version=first, timestamp=_time(since)),
        last=When(version=last, timestamp=_time(until)),
    )
    return _answer(await feeds.changes(table, span, can, base, caller_of(request.scope)))


@router.get(ROOT + "/changes/{dataset}/{name}", summary="A file of a feed of changes")
def changed_file(
    request: Request,
    stores: StoresDep,
    urls: UrlsDep,
    dataset: Text,
    name: Text,
    sp: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Return a file by its signed URL from a feed."""
    return file_answer(find_changed_file(stores, urls, dataset, name, sp), request)


def _page(page: Page) -> Response:
    items, token = page
    return JsonAnswer({"items": items} | ({} if token is None else {"nextPageToken": token}))


def _answer(told: Told) -> Response:
    headers = {VERSION: str(told.version), HEADER: f"responseformat={told.form}"}
    return Response(encoded(told.lines), headers=headers, media_type=LINES)


def _time(text: str | None) -> Instant | None:
    """Parse a time. Raises `MalformedInstant`."""
    return None if text is None else Instant.parse(text)
