"""The service that serves queries only (`odf-query`), beside a full service on the same stores.

It serves `/query`, `/verify` and Flight SQL with the code of the full service, and the routes that
clients need with them: jobs of queries, keys, health. Polling, sweeps, mirrors and deliveries are
left to the full service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from odf_protocol.errors import BadInput

from ..http.addresses import Addresses
from ..http.parameters import KNOWN_PARAMETERS
from ..jobs import routes as jobs
from ..query import routes as query
from ..settings import Settings
from ..system import routes as system
from ..wiring import Node
from .framework import new_api, observed

PARTS = (system, query, jobs)


def check_is_beside(settings: Settings) -> None:
    """Raise `StoresOfOneMachine` unless the stores are PostgreSQL and a bucket."""
    missing = [
        name
        for name, value in (
            ("ODF_STORE_DATABASE_URL", settings.database_url),
            ("ODF_STORE_OBJECTS_URL", settings.objects_url),
        )
        if value is None
    ]
    if missing:
        raise BadInput(
            "StoresOfOneMachine",
            "queries run beside a service that keeps its state in PostgreSQL and a bucket: set "
            f"{' and '.join(missing)} as they are set there",
            setting=missing[0],
        )


def build_query_app(node: Node, *, on_stop: Callable[[], None] | None = None) -> ASGIApp:
    """Return the ASGI application on an opened node. `on_stop` runs when the server ends."""

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
