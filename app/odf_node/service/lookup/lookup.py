"""Lookups of rows by values, in the changelog or in its current state: planned here, run by a
reader process.

GET …/lookup: rows with some values, from the changelog or the current state, in the form of a
tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import LimitExceeded
from odf_protocol.multihash import Multihash
from odf_storage.datasets.pruning.filters import Filter, equal
from odf_storage.datasets.read.records import DataFormat
from odf_storage.stores.ports.values import DatasetEntry

from ..datasets.schema_formats import SchemaFormat, parse_format, written
from ..http.answers import JsonAnswer, failed_answer
from ..http.deps import ReadableDep, wired
from ..limits.shares import caller_of
from ..read.read import Tables
from ..read.routes import MAX_ROWS, CountersDep, ReadersDep, StreamedRows, told_of
from ..readers.messages import Materials
from ..readers.pool import ReadRefused
from ..readers.tasks import LookupTask, schema_of


@dataclass(frozen=True)
class Lookups:
    """The dependencies and limits of lookups."""

    tables: Tables
    max_records: int
    max_bytes: int


def lookup_task(
    lookups: Lookups,
    entry: DatasetEntry,
    filters: Sequence[Filter],
    *,
    block: Multihash | None,
    state: bool,
    limit: int,
    shape: DataFormat,
) -> tuple[LookupTask, Materials]:
    """Return the task of a reader for the first `limit` rows, and access to the objects it needs.

    With `state`, only rows that are in the current state count.

    Raises:
        TooManyFound: `limit` is above the node's. BlockNotFound: `block` is not in the dataset.
    """
    if limit > lookups.max_records:
        raise LimitExceeded(
            "TooManyFound",
            f"a look-up gives at most {lookups.max_records} rows",
            limit=lookups.max_records,
        )
    table, materials = lookups.tables.of(entry, block, filters)
    task = LookupTask(
        table=table,
        filters=tuple(filters),
        state=state,
        limit=limit,
        shape=shape.value,
        max_bytes=lookups.max_bytes,
    )
    return task, materials


DEFAULT_LIMIT = 100
LookupsDep = Annotated[Lookups, Depends(wired(Lookups))]


async def lookup(
    request: Request,
    lookups: LookupsDep,
    readers: ReadersDep,
    counters: CountersDep,
    entry: ReadableDep,
    column: Annotated[list[str], Query()],
    value: Annotated[list[str], Query()],
    block_hash: Annotated[str | None, Query(alias="blockHash", max_length=200)] = None,
    state: bool = False,
    limit: Annotated[int, Query(ge=0, le=MAX_ROWS)] = DEFAULT_LIMIT,
    data_format: Annotated[str, Query(alias="dataFormat")] = DataFormat.AOS.value,
    schema_format: Annotated[str | None, Query(alias="schemaFormat")] = None,
) -> Response:
    """Return rows with these values in offset order: all rows of the changelog, or with `state`
    only rows of the current state."""
    shape = parse_format(data_format, DataFormat)
    form = None if schema_format is None else parse_format(schema_format, SchemaFormat)
    plan = partial(
        lookup_task,
        lookups,
        entry,
        equal(column, value),
        block=None if block_hash is None else Multihash.parse(block_hash),
        state=state,
        limit=limit,
        shape=shape,
    )
    task, source = await run_in_threadpool(plan)
    learn = partial(lookups.tables.bounds.learn, str(entry.id))
    try:
        found = await readers.answer(task, source, caller_of(request.scope), learn)
    except ReadRefused as refused:
        return failed_answer(refused.failed)
    if found.opened is not None:
        counters.filtered(found.opened.scanned, found.opened.total)
    facts = {"dataFormat": shape.value}
    schema = schema_of(task.table.schema)
    if form is not None and schema is not None:
        facts |= {"schema": written(schema, form), "schemaFormat": form.value}
    return StreamedRows(
        found,
        before=b'{"data":',
        behind=b"," + msgspec.json.encode(facts)[1:],
        headers=told_of(task.table, found),
        media_type=JsonAnswer.media_type,
    )


def add_lookup_routes(routes: APIRouter, prefix: str) -> None:
    """Serve lookups below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/lookup", summary="Rows with a value", tags=tags)(lookup)
