"""GET …/read: rows of a dataset as of some time, in the format a client wants, streamed."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from ..usecases.read import ReadRequest, read_dataset
from ..usecases.read_formats import MEDIA_TYPES, Format
from .deps import NodeDep, ReadableDep

MAX_ROWS = 2**53
HEAD = "odf-block"
"""Header with the block as of which rows were read."""


def read(
    node: NodeDep,
    entry: ReadableDep,
    as_at: Annotated[str | None, Query(alias="asAt", max_length=200)] = None,
    as_of: Annotated[str | None, Query(alias="asOf", max_length=100)] = None,
    projection: Annotated[str, Query(max_length=50)] = "changelog",
    columns: Annotated[str | None, Query(max_length=100_000)] = None,
    skip: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 0,
    limit: Annotated[int | None, Query(ge=0, le=MAX_ROWS)] = None,
    form: Annotated[str, Query(alias="format", max_length=50)] = Format.NDJSON.value,
) -> Response:
    """AS AT a block or system time, AS OF an event time; all rows unless limited."""
    request = ReadRequest(
        as_at=as_at,
        as_of=as_of,
        projection=projection,
        columns=columns,
        skip=skip,
        limit=limit,
        form=form,
    )
    found = read_dataset(node, entry, request)
    return StreamingResponse(
        iter(found),
        headers={HEAD: str(found.head)},
        media_type=MEDIA_TYPES[found.form],
        background=BackgroundTask(found.close),
    )


def add_read_routes(routes: APIRouter, prefix: str) -> None:
    """Serve it below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/read", summary="Rows as of some time, streamed", tags=tags)(read)
