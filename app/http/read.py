"""GET …/read: rows of a dataset as of some time, in the format a client wants, streamed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from enum import Enum
from threading import Semaphore
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from protocol.errors import LimitExceeded

from ..usecases.read import Reading, ReadRequest, read_dataset
from ..usecases.read_formats import MEDIA_TYPES, Format
from .deps import NodeDep, ReadableDep

MAX_ROWS = 2**53
MAX_READS = 16
"""Reads of rows at once: each holds a thread, files, and the keys of a state."""
RETRY_AFTER_S = 5
HEAD = "odf-block"
"""Header with the block as of which rows were read."""


class TooManyReads(LimitExceeded):
    """As many clients read rows as the node serves at once."""


def read(
    request: Request,
    node: NodeDep,
    entry: ReadableDep,
    as_at: Annotated[str | None, Query(alias="asAt", max_length=200)] = None,
    as_of: Annotated[str | None, Query(alias="asOf", max_length=100)] = None,
    projection: Annotated[str | None, Query(max_length=50)] = None,
    columns: Annotated[str | None, Query(max_length=100_000)] = None,
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
    slots: Semaphore = request.app.state.reads
    if not slots.acquire(blocking=False):
        raise TooManyReads("too many reads at once, try again soon", retry_after_s=RETRY_AFTER_S)
    try:
        found = read_dataset(node, entry, asked)
    except BaseException:
        slots.release()
        raise
    return StreamingResponse(
        _Rows(found, slots),
        headers={HEAD: str(found.head)},
        media_type=MEDIA_TYPES[found.form],
    )


class _Rows:
    """The rows; whatever becomes of the client, even before the first, all is given back."""

    def __init__(self, found: Reading, slots: Semaphore) -> None:
        self._chunks = iter(found)
        self._end = weakref.finalize(self, _give_back, found, slots)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except BaseException:
            self._end()
            raise


def _give_back(found: Reading, slots: Semaphore) -> None:
    found.close()
    slots.release()


def add_read_routes(routes: APIRouter, prefix: str) -> None:
    """Serve it below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/read", summary="Rows as of some time, streamed", tags=tags)(read)
