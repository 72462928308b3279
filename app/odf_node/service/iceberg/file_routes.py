"""`GET {dataset}/iceberg/{name}`: generated files of a table, for S3 clients and others."""

from __future__ import annotations

from collections.abc import Iterator

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.addresses import DATASET, Route, path_of
from ..http.answers import HEADERS_ONLY
from ..limits.shares import caller_of
from ..projections.gateway import file_answer
from ..transfer.routes import in_front
from .tables import IcebergTables

READS = ("GET", "HEAD")


class TableFiles:
    """The ASGI application that serves generated files."""

    def __init__(self, tables: IcebergTables, access: DatasetAccess) -> None:
        self._tables, self._access = tables, access

    def routes(self) -> Iterator[Route]:
        """Yield the routes for the table of addresses."""
        yield Route(f"{DATASET}/iceberg/{{name}}", self.read, READS, takes_s3=True)

    async def read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file, or a part of it."""
        path, actor = path_of(scope), _actor(scope)
        entry = await to_thread.run_sync(
            self._access.resolve, actor, path.account, path.dataset, Action.READ
        )
        file = await self._tables.file(entry, path.name, caller_of(scope))
        scope["state"][HEADERS_ONLY] = scope["method"] == "HEAD"
        await file_answer(file, Request(scope))(scope, receive, send)


def add_table_file_routes(routes: APIRouter, prefix: str) -> None:
    """Declare the route for the framework; `TableFiles` serves it."""
    summary = "A file made of a dataset for clients of Iceberg"
    for method in READS:
        routes.add_api_route(
            f"{prefix}/iceberg/{{name}}",
            in_front,
            methods=[method],
            summary=summary,
            operation_id=f"{method.lower()}_iceberg",
            tags=["iceberg"],
        )


def _actor(scope: Scope) -> Actor:
    actor: Actor = scope["state"]["actor"]
    return actor
