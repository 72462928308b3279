"""Builds the ASGI application out of its parts.

A request passes `Observed` (counters, traces, log, audit), then `Dispatch` (finds the route and
the caller), then the application at its address: `ObjectRoutes` (bytes), `Transfers` (WebSockets),
pages for browsers, or FastAPI (everything else).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from odf_storage.datasets.node.overviews import AT_ONCE, bring_up
from odf_storage.datasets.upkeep.gc import remove_abandoned, republish_recent
from odf_storage.runtime.features import loaded
from odf_storage.stores.wakeups.wakeups import Topic

from .accounts import audit
from .accounts import login_routes as login
from .accounts import routes as identity
from .accounts import token_routes as own_tokens
from .accounts.audit import forget_old_deeds
from .applications.framework import new_api, observed
from .applications.pages import page_routes
from .datasets import graphql_routes as graphql
from .datasets import routes as datasets
from .datasets.graphql_routes import add_access_routes
from .datasets.routes import add_dataset_routes
from .definitions import variables
from .definitions.variables import add_variable_routes
from .derivatives.follow import follow
from .derivatives.routes import add_derivative_routes, add_refresh
from .features import features
from .history.rewrite_routes import add_history_routes
from .history.verify import add_verify_routes
from .http import addresses as contract
from .http import schemas
from .http.addresses import Addresses
from .http.parameters import KNOWN_PARAMETERS
from .ingest.endpoint import IngestEndpoint, add_ingest
from .jobs import routes as jobs
from .jobs.routes import add_job_routes
from .limits.shares import Turns
from .lookup.lookup import add_lookup_routes
from .membership import routes as membership
from .mirrors.mirroring import MIRROR_TURN_S, MirrorRunner
from .mirrors.routes import add_mirror_routes
from .news import routes as news
from .news.routes import add_news_routes
from .objects.listing import Listings
from .objects.objects import AtHand, ObjectUploads
from .objects.routes import ObjectRoutes
from .processes.follower import Follower
from .query import routes as query
from .read.file_routes import add_file_routes
from .read.routes import add_read_routes
from .schedules.routes import Ticker, add_schedule_routes
from .setting_groups.words import Tenancy
from .system import routes as system
from .transfer.conversation import Transfers
from .transfer.routes import add_transfer_routes
from .uploads import routes as uploads
from .uploads.uploaded_files import clear_away
from .wiring import Node

_log = logging.getLogger("odf.node")
PREFIX: dict[Tenancy, str] = {
    Tenancy.SINGLE: "/{dataset}",
    Tenancy.MULTI: "/{account}/{dataset}",
}
OWN_PARTS = (
    contract,
    system,
    audit,
    schemas,
    uploads,
    datasets,
    query,
    jobs,
    variables,
    own_tokens,
    news,
    membership,
)
PEERS_PARTS = (identity, login, graphql)
"""Foreign clients use these routes, too; they may send unknown query parameters."""
PARTS = (*OWN_PARTS, *PEERS_PARTS)
"""Modules whose routes are not below the address of a dataset."""
PAGE_OF_THE_API = "/docs"
MAX_PASSWORDS = 4
"""Limit of passwords that are checked at once; each check takes memory and a core."""
OVERVIEWS_REST_S = 10.0
"""Longest rest between two looks at overviews. A list corrects the overviews it shows, so late ones
only change its order."""
START_REST_S = 2.0
"""Pause after a start, so that the first answers compete with no sweep."""
SWEEP_PAUSE_S = 3600.0
SWEEPS_A_DAY = 24


def build_app(node: Node, *, on_stop: Callable[[], None] | None = None) -> ASGIApp:
    """Return the whole service on an opened node. `on_stop` runs when the server ends."""
    at_hand = node.at_hand

    def stopped() -> None:
        at_hand.close()
        if on_stop is not None:
            on_stop()

    api = build_api(node, on_stop=stopped)
    return observed(node, _addresses(node, at_hand, api), api)


def _addresses(node: Node, at_hand: AtHand, api: FastAPI) -> Addresses:
    """Return the routes that are served in front of the framework."""
    stores, access, settings = node.stores, node.access, node.settings
    prefix = PREFIX[settings.tenancy]
    uploads = ObjectUploads(stores, access, node.begun_uploads, settings)
    objects = ObjectRoutes(stores, access, at_hand, uploads, node.head_polls, node.signed_urls)
    transfers = Transfers(node.handshake, settings)
    posts = IngestEndpoint(node.posts, node.file_uploads, node.waiting, settings, api.state)
    pages = page_routes(node.parts, prefix)
    lists = Listings(stores, access, node.outlines)
    rows = [
        *objects.routes(),
        *lists.routes(),
        *transfers.routes(),
        *posts.routes(prefix),
        *pages,
        *chain.from_iterable(loaded(f.addresses)(node) for f in features() if f.addresses),
    ]
    return Addresses(settings.tenancy, rows)


def build_api(node: Node, *, on_stop: Callable[[], None] | None = None) -> FastAPI:
    """Return the part of the service that uses the framework."""

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        settings = node.settings
        api.state.bodies = Turns(
            "bodies", most=settings.max_bodies, each=settings.share_of(settings.max_bodies)
        )
        api.state.passwords = CapacityLimiter(MAX_PASSWORDS)
        api.state.watchers = set()
        node.watch.start()
        node.head_watch.start()
        ticker = Ticker(node.scheduling, node.pruning, node.stores, tick_s=settings.poll_s)
        ticker.start()
        sweeping = asyncio.create_task(_sweep(node))
        mirrors = MirrorRunner(
            node.mirrors,
            threads=settings.mirror_threads,
            poll_s=settings.poll_s,
            turn_s=MIRROR_TURN_S,
            is_shared=settings.tenancy is Tenancy.MULTI,
        )
        mirrors.start()
        theirs = (loaded(feature.runners)(node) for feature in features() if feature.runners)
        runners = [*_followers(node), *chain.from_iterable(theirs)]
        for runner in runners:
            runner.start()
        yield
        await run_in_threadpool(node.flight.stop)
        for runner in runners:
            await run_in_threadpool(runner.stop)
        await run_in_threadpool(mirrors.stop)
        for task in (sweeping, *api.state.watchers):
            task.cancel()
        await run_in_threadpool(ticker.stop)
        await node.watch.stop()
        await node.head_watch.stop()
        await run_in_threadpool(node.audit_writer.close)
        if on_stop is not None:
            on_stop()

    api = new_api(node, lifespan)
    _add_routes(api, PREFIX[node.settings.tenancy])
    return api


def _followers(node: Node) -> list[Follower]:
    """Return the followers: of derivatives' inputs, and of overviews."""
    wake_up, poll_s = node.stores.wake_up, node.settings.poll_s
    followers = []
    if node.settings.follow_inputs:
        look = partial(follow, node.following)
        followers.append(Follower("derivatives", wake_up, look, poll_s=poll_s))

    def overviews() -> float:
        return 0.0 if bring_up(node.stores) == AT_ONCE else poll_s

    lists = Follower(
        "overviews",
        wake_up,
        overviews,
        poll_s=poll_s,
        topic=Topic.MOVED,
        longest_rest_s=OVERVIEWS_REST_S,
    )
    return [*followers, lists]


def _add_routes(api: FastAPI, prefix: str) -> None:
    for part in OWN_PARTS:
        api.include_router(part.router, dependencies=KNOWN_PARAMETERS)
    for part in PEERS_PARTS:
        api.include_router(part.router)
    transfers, routes = APIRouter(), APIRouter(dependencies=KNOWN_PARAMETERS)
    add_transfer_routes(transfers, prefix)
    for feature in features():
        if feature.router:
            known = KNOWN_PARAMETERS if feature.knows_parameters else ()
            api.include_router(loaded(feature.router), dependencies=known)
        if feature.dataset_files:
            loaded(feature.dataset_files)(transfers, prefix)
        for place in feature.dataset_routes:
            loaded(place)(routes, prefix)
    add_ingest(routes, prefix)
    add_refresh(routes, prefix)
    add_job_routes(routes, prefix)
    add_schedule_routes(routes, prefix)
    add_variable_routes(routes, prefix)
    add_history_routes(routes, prefix)
    add_read_routes(routes, prefix)
    add_lookup_routes(routes, prefix)
    add_verify_routes(routes, prefix)
    add_mirror_routes(routes, prefix)
    add_dataset_routes(routes, prefix)
    add_derivative_routes(routes, prefix)
    add_access_routes(routes, prefix)
    add_file_routes(routes, prefix)
    add_news_routes(routes, prefix)
    api.include_router(transfers)
    api.include_router(routes)


async def _sweep(node: Node) -> None:
    """Mend and remove leftovers of an earlier run, then old records every hour; no answer depends
    on it, so a start waits for none of it."""
    await asyncio.sleep(START_REST_S)
    await _try_to(node.posts.uploads.sweep, node.stores.jobs)
    is_published = False
    for number in itertools.count():
        is_published = is_published or await _publish_all(node)
        await _try_to(clear_away, node.file_uploads)
        await _try_to(
            forget_old_deeds, node.stores.audit, node.clock(), node.settings.audit_keep_days
        )
        await _try_to(republish_recent, node.stores)
        if number % SWEEPS_A_DAY == 0:
            await _try_to(remove_abandoned, node.stores)
        await asyncio.sleep(SWEEP_PAUSE_S)


async def _publish_all(node: Node) -> bool:
    """Publish what an earlier run left stale, in steps, so that a stop waits for one of them only.
    Return whether all of it is published."""
    steps = node.stores.republishing()
    try:
        while await run_in_threadpool(next, steps, None) is not None:
            pass
    except Exception:
        _log.exception("not all datasets could be published again; that is tried every hour")
        return False
    return True


async def _try_to(sweep: Callable[..., int], *given: object) -> None:
    try:
        await run_in_threadpool(sweep, *given)
    except Exception:
        _log.exception("%s did not work", getattr(sweep, "__name__", sweep))
