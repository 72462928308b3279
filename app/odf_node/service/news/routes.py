"""GET …/events: server-sent events of one dataset, or of all datasets that the caller may read.

GET …/events/atom: the newest blocks as a feed.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.identity import DatasetId
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import Action, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.answers import is_named
from ..http.deps import AccessDep, ActorDep, BaseDep, ReadableDep, StoresDep, wired
from ..http.parameters import parse_hash
from ..limits.shares import caller_of
from .atom import MEDIA_TYPE, AtomFeeds
from .feeds import ChainPosition, LogPosition
from .notices import NewsNotice, head_notice, log_notice
from .streams import EventStream, StreamListener, Streams, frames

MAX_ID_CHARS = 200
MAX_NAMES_CHARS = 10_000

router = APIRouter(tags=["news"])
StreamsDep = Annotated[Streams, Depends(wired(Streams))]
LastId = Annotated[str | None, Query(alias="lastEventId", max_length=MAX_ID_CHARS)]
LastIdHeader = Annotated[str | None, Header(alias="Last-Event-ID", max_length=MAX_ID_CHARS)]
Rows = Annotated[bool, Query()]
"""Whether events include the rows that their blocks add."""


async def dataset_events(
    request: Request,
    streams: StreamsDep,
    stores: StoresDep,
    access: AccessDep,
    actor: ActorDep,
    entry: ReadableDep,
    last_id: LastId = None,
    last_id_header: LastIdHeader = None,
    rows: Rows = False,
) -> Response:
    """Send an event `block` for each new block; a client resumes with the id of the last one."""
    known = last_id_header or last_id
    listener = StreamListener(actor=actor, dataset=entry.id, rows=rows)
    if known is not None:
        return _stream(request, streams, listener, ChainPosition.parse(entry.id, known))
    head = await run_in_threadpool(stores.refs.head, entry.id)
    first = head_notice(entry, access.shown_alias(entry), head)
    position = ChainPosition(entry.id, head)
    return _stream(request, streams, listener, position, first)


@router.get("/events", summary="News of all datasets that one may read, as server-sent events")
async def node_events(
    request: Request,
    streams: StreamsDep,
    stores: StoresDep,
    access: AccessDep,
    actor: ActorDep,
    last_id: LastId = None,
    last_id_header: LastIdHeader = None,
    rows: Rows = False,
    datasets: Annotated[str | None, Query(max_length=MAX_NAMES_CHARS)] = None,
) -> Response:
    """Send events in the order of the node's log; `datasets` names some, separated by commas."""
    refuse_bad_token(actor)
    only = None
    if datasets is not None:
        only = await run_in_threadpool(_named, access, actor, datasets)
    listener = StreamListener(actor=actor, dataset=None, only=only, rows=rows)
    known = last_id_header or last_id
    if known is not None:
        return _stream(request, streams, listener, streams.positions.parse(known))
    position = LogPosition(await run_in_threadpool(stores.refs.log_end))
    first = log_notice(streams.positions.of_start(position))
    return _stream(request, streams, listener, position, first)


def _named(access: DatasetAccess, actor: Actor, names: str) -> frozenset[DatasetId]:
    """Return the ids of the named datasets. Raises the same errors as `DatasetAccess.resolve`."""
    found = []
    for text in names.split(","):
        account, slash, name = text.strip().rpartition("/")
        entry = access.resolve(actor, account if slash else None, name, Action.READ)
        found.append(entry.id)
    return frozenset(found)


def _stream(
    request: Request,
    streams: Streams,
    listener: StreamListener,
    position: ChainPosition | LogPosition,
    first: NewsNotice | None = None,
) -> Response:
    """Take a slot and return the stream. Raises `ShareTaken`, `AllTaken`."""
    caller = caller_of(request.scope)
    streams.slots.take(caller)
    pieces = frames(streams, listener, position, first)
    return EventStream(pieces, streams.idle_s, partial(streams.slots.give_back, caller))


def add_news_routes(routes: APIRouter, prefix: str) -> None:
    """Add the route below the dataset addresses."""
    tags: list[str | Enum] = ["news"]
    summary = "News of a dataset, as server-sent events"
    routes.get(prefix + "/events", summary=summary, tags=tags)(dataset_events)


FeedsDep = Annotated[AtomFeeds, Depends(wired(AtomFeeds))]
Known = Annotated[str, Header(alias="If-None-Match", max_length=1000)]


def dataset_feed(
    feeds: FeedsDep,
    entry: ReadableDep,
    base: BaseDep,
    known: Known = "",
    before: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Return an entry for each block; `before` is the last block of the previous page."""
    hash_before = None if before is None else parse_hash(before)
    return _answer(feeds.of_dataset(entry, _url(feeds, base, entry), hash_before), known)


@router.get("/events/atom", summary="What is new in datasets that one may read, as an Atom feed")
def node_feed(
    feeds: FeedsDep,
    actor: ActorDep,
    base: BaseDep,
    known: Known = "",
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> Response:
    """Return an entry for each move of a head; `before` is where the previous page ended."""
    refuse_bad_token(actor)
    return _answer(feeds.of_node(actor, base, partial(_url, feeds, base), before), known)


def _url(feeds: AtomFeeds, base: str, entry: DatasetEntry) -> str:
    return base + feeds.access.shown_alias(entry)


def _answer(body: bytes, known: str) -> Response:
    """Return the feed, or 304 if it has not changed, since feed readers poll."""
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    headers = {"cache-control": "no-cache", "etag": etag}
    if known and is_named(known.encode("latin-1"), etag.encode(), weak=True):
        return Response(b"", 304, headers)
    return Response(body, 200, headers, MEDIA_TYPE)


def add_feed_routes(routes: APIRouter, prefix: str) -> None:
    """Add the route below the dataset addresses."""
    tags: list[str | Enum] = ["news"]
    summary = "The newest blocks of a dataset, as an Atom feed"
    routes.get(prefix + "/events/atom", summary=summary, tags=tags)(dataset_feed)
