"""Queries as a service of their own (`odf-query`), beside one that has the same stores.

It answers `/query`, `/verify` and Flight SQL by the parts that the whole service has, and what an
asker needs with them: jobs of queries, keys, health. It polls, sweeps, mirrors and delivers
nothing, which the service beside it does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from odf_node.protocol.errors import BadInput

from ..http.addresses import Addresses
from ..http.parameters import KNOWN_PARAMETERS
from ..jobs import routes as jobs
from ..query import routes as query
from ..settings import Settings
from ..system import routes as system
from ..wiring import Node
from .framework import new_api, observed

PARTS = (system, query, jobs)


class StoresOfOneMachine(BadInput):
    """A database or objects that no other machine reaches."""


def check_is_beside(settings: Settings) -> None:
    """Raises `StoresOfOneMachine`."""
    missing = [
        name
        for name, value in (
            ("ODF_STORE_DATABASE_URL", settings.database_url),
            ("ODF_STORE_OBJECTS_URL", settings.objects_url),
        )
        if value is None
    ]
    if missing:
        raise StoresOfOneMachine(
            "queries run beside a service that keeps its state in PostgreSQL and a bucket: set "
            f"{' and '.join(missing)} as they are set there",
            setting=missing[0],
        )


def build_query_app(node: Node, *, on_stop: Callable[[], None] | None = None) -> ASGIApp:
    """Queries alone, on an opened node. `on_stop` runs when the server ends."""

    @asynccontextmanager
    async def lifespan(_api: FastAPI) -> AsyncIterator[None]:
        node.watch.start()
        yield
        await run_in_threadpool(node.flight.stop)
        await node.watch.stop()
        await run_in_threadpool(node.audit_writer.close)
        if on_stop is not None:
            on_stop()

    api = new_api(node, lifespan)
    for part in PARTS:
        api.include_router(part.router, dependencies=KNOWN_PARAMETERS)
    return observed(node, Addresses(node.settings.tenancy, ()), api)
