"""GET …/read: rows of a dataset as of some time, in the format a client wants, streamed."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_node.storage.datasets.read.formats import MEDIA_TYPES, Format

from ..http.answers import failed_answer
from ..http.deps import ReadableDep, SettingsDep, StoresDep, wired
from ..limits.shares import caller_of
from ..readers.pool import Readers, ReadRefused
from .read import ReadRequest, read_task
from .rows import Rows

MAX_ROWS = 2**53
ReadersDep = Annotated[Readers, Depends(wired(Readers))]
HEAD = "odf-block"
"""Header with the block as of which rows were read."""


async def read(
    request: Request,
    stores: StoresDep,
    settings: SettingsDep,
    readers: ReadersDep,
    entry: ReadableDep,
    as_at: Annotated[str | None, Query(alias="asAt", max_length=200)] = None,
    as_of: Annotated[str | None, Query(alias="asOf", max_length=100)] = None,
    projection: Annotated[str | None, Query(max_length=50)] = None,
    columns: Annotated[str | None, Query(max_length=60_000)] = None,
    skip: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 0,
    limit: Annotated[int | None, Query(ge=0, le=MAX_ROWS)] = None,
    form: Annotated[str, Query(alias="format", max_length=50)] = Format.NDJSON.value,
) -> Response:
    """AS AT a block or system time, AS OF an event time; all rows unless limited."""
    asked = ReadRequest(
        as_at=as_at,
        as_of=as_of,
        projection=projection,
        columns=columns,
        skip=skip,
        limit=limit,
        form=form,
    )
    task, source = await run_in_threadpool(
        read_task, stores, entry, asked, max_bytes=settings.max_read_bytes
    )
    try:
        found = await readers.answer(task, source, caller_of(request.scope))
    except ReadRefused as refused:
        return failed_answer(refused.failed)
    media_type = MEDIA_TYPES[asked.format()]
    return Rows(found, headers={HEAD: task.head}, media_type=media_type)


def add_read_routes(routes: APIRouter, prefix: str) -> None:
    """Serve it below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/read", summary="Rows as of some time, streamed", tags=tags)(read)
