"""GET …/read: streams rows of a dataset as of a time, in the format that the client requests.

Responses that stream from a reader, and release it even if the client disconnects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import Enum
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_storage.datasets.read.formats import MEDIA_TYPES, Format

from ..http.answers import StreamedAnswer, failed_answer
from ..http.deps import ReadableDep, SettingsDep, wired
from ..limits.shares import caller_of
from ..observe.metrics import Counters
from ..readers.pool import ReaderAnswer, Readers, ReadRefused
from ..readers.tasks import TableRef
from .read import ReadRequest, Tables, read_task
from .tail import Current


class StreamedRows(StreamedAnswer):
    """Streams the bytes of a reader, between given bytes."""

    def __init__(
        self, answer: ReaderAnswer, *, before: bytes = b"", behind: bytes = b"", **more: Any
    ) -> None:
        super().__init__(_joined(before, answer, behind), **more)
        self._answer = answer
        if answer.size is not None:
            length = len(before) + answer.size + len(behind)
            self.headers["content-length"] = str(length)

    async def finished(self) -> None:
        self._answer.close()


async def _joined(before: bytes, answer: ReaderAnswer, behind: bytes) -> AsyncIterator[bytes]:
    if before:
        yield before
    async for piece in answer:
        yield piece
    if behind:
        yield behind


MAX_ROWS = 2**53
ReadersDep = Annotated[Readers, Depends(wired(Readers))]
HEAD, SLICES = "odf-block", "odf-slices"
"""Response headers: the block as of which rows were read; numbers of opened and of all slices."""
TablesDep = Annotated[Tables, Depends(wired(Tables))]
CurrentDep = Annotated[Current, Depends(wired(Current))]
CountersDep = Annotated[Counters, Depends(wired(Counters))]


async def read(
    request: Request,
    settings: SettingsDep,
    readers: ReadersDep,
    tables: TablesDep,
    counters: CountersDep,
    current: CurrentDep,
    entry: ReadableDep,
    as_at: Annotated[str | None, Query(alias="asAt", max_length=200)] = None,
    as_of: Annotated[str | None, Query(alias="asOf", max_length=100)] = None,
    projection: Annotated[str | None, Query(max_length=50)] = None,
    columns: Annotated[str | None, Query(max_length=60_000)] = None,
    filters: Annotated[list[str] | None, Query(alias="filter")] = None,
    skip: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 0,
    limit: Annotated[int | None, Query(ge=0, le=MAX_ROWS)] = None,
    form: Annotated[str, Query(alias="format", max_length=50)] = Format.NDJSON.value,
) -> Response:
    """Read rows AS AT a block or system time, AS OF an event time, filtered and limited."""
    asked = ReadRequest(
        as_at=as_at,
        as_of=as_of,
        projection=projection,
        columns=columns,
        skip=skip,
        limit=limit,
        form=form,
        filters=filters or (),
    )
    caller = caller_of(request.scope)
    asked = await current.simplest(entry, asked, caller)
    task, source = await run_in_threadpool(
        read_task, tables, entry, asked, max_bytes=settings.max_read_bytes
    )
    learn = partial(tables.bounds.learn, str(entry.id))
    try:
        found = await readers.answer(task, source, caller, learn)
    except ReadRefused as refused:
        return failed_answer(refused.failed)
    if filters and found.opened is not None:
        counters.filtered(found.opened.scanned, found.opened.total)
    return StreamedRows(
        found, headers=told_of(task.table, found), media_type=MEDIA_TYPES[asked.format()]
    )


def told_of(table: TableRef, answer: ReaderAnswer) -> dict[str, str]:
    """Return the response headers about a read."""
    opened = answer.opened
    slices = {} if opened is None else {SLICES: f"{opened.scanned}/{opened.total}"}
    return {HEAD: table.head, **slices}


def add_read_routes(routes: APIRouter, prefix: str) -> None:
    """Add the route below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/read", summary="Rows as of some time, streamed", tags=tags)(read)
