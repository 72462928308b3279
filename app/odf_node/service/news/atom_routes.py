"""GET …/events/atom: the newest blocks as a feed."""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.responses import Response

from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import refuse_bad_token
from ..http.deps import ActorDep, BaseDep, ReadableDep, wired
from ..http.entity_tags import is_named
from ..http.hashes import parse_hash
from .atom import MEDIA_TYPE
from .atom_feeds import AtomFeeds

router = APIRouter(tags=["news"])
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
