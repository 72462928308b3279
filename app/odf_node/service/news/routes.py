"""GET …/events: server-sent events of one dataset, or of all datasets that the caller may read."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.identity import DatasetId

from ..auth.access import Action, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.deps import AccessDep, ActorDep, ReadableDep, StoresDep, wired
from ..limits.shares import caller_of
from .feeds import ChainPosition, LogPosition
from .notices import Notice, head_notice, log_notice
from .streams import EventStream, Listener, Streams, frames

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
    listener = Listener(actor=actor, dataset=entry.id, rows=rows)
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
    listener = Listener(actor=actor, dataset=None, only=only, rows=rows)
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
    listener: Listener,
    position: ChainPosition | LogPosition,
    first: Notice | None = None,
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
