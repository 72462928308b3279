"""`odf-node sql --background`: run a query as a job of the node on Spark, then read its rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import click
import httpx

from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetAlias, MalformedName
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads.query_job import DIALECT
from odf_storage.datasets.read.formats import Format

from ..client.http import open_http
from ..client.node_api import NodeApi
from ..client.urls import node_base
from .ingest import job_progress
from .output import print_json
from .progress_bars import stepwise
from .read import whole_file
from .sql_sources import PIECE_BYTES, OneDatasetWanted, lines_as_list

TABLE_ROWS = 100


def ask_in_background(
    node: str,
    token: str | None,
    query: str,
    *,
    block: Multihash | None,
    limit: int | None,
    form: Format | None,
    output: Path | None,
    wait: bool,
    as_json: bool,
) -> dict[str, Any] | None:
    """Submit the query, and wait for its rows if `wait`.

    Write the rows in format `form` to `output` and return None. For a table (`form` is None),
    return the rows in the format of an output of `/query`. With `as_json` print the receipt, and
    without `wait` print the address of the job, and return None.

    Raises the node's refusals, and `OneDatasetWanted`.
    """
    lines = form in (None, Format.JSON)
    body: dict[str, Any] = {
        "query": query,
        "queryDialect": DIALECT,
        "dataFormat": "ndjson" if lines else str(form),
        "limit": TABLE_ROWS if limit is None and form is None else limit,
    }
    with open_http() as http, stepwise(quiet=as_json or not wait) as step:
        base = node_base(node)
        api = NodeApi(base, token, http=http)
        if block is not None:
            body["datasets"] = [_pin(base, token, http, query, block)]
        receipt = api.query_in_background(body, wait=wait, seen=job_progress(step))
        if as_json:
            print_json(receipt)
        elif not wait:
            click.echo(f"job {receipt['job']}\n{receipt['url']}")
        if as_json or not wait:
            return None
        pieces = rows_of_job(api, str(receipt["job"]))
        if form is None:
            return _as_output(receipt, b"".join(pieces))
        write_pieces(lines_as_list(pieces) if form is Format.JSON else pieces, output)
        return None


def _pin(
    base: str, token: str | None, http: httpx.Client, query: str, block: Multihash
) -> dict[str, str]:
    """Return the one dataset that the text of the query names, as of the block.

    The text is only searched for names, because only the worker can analyse Spark's SQL.

    Raises:
        OneDatasetWanted: the query names no dataset or several.
    """
    from ..service.query.inputs import views_by_alias

    found = {}
    for alias in views_by_alias(query):
        with suppress(MalformedName, NotFound):
            path = str(DatasetAlias.parse(alias))
            found[alias] = str(NodeApi(f"{base}{path}", token, http=http).dataset()["id"])
    if len(found) != 1:
        raise OneDatasetWanted(f"--at is for a query of one dataset, not of {len(found)}")
    ((alias, dataset),) = found.items()
    return {"id": dataset, "alias": alias, "blockHash": str(block)}


def rows_of_job(api: NodeApi, job: str) -> Iterator[bytes]:
    """Yield the rows of a query that ran as a job, in pieces, while they are received."""
    with api.opened(f"jobs/{job}/rows") as (_, stream):
        yield from iter(lambda: stream.read(PIECE_BYTES), b"")


def write_pieces(pieces: Iterator[bytes], output: Path | None) -> None:
    """Write the pieces to a file, which appears when it is complete, or to standard output."""
    with nullcontext(sys.stdout.buffer) if output is None else whole_file(output) as out:
        for piece in pieces:
            out.write(piece)
        out.flush()


def _as_output(receipt: dict[str, Any], lines: bytes) -> dict[str, Any]:
    names = [str(field["name"]) for field in receipt["schema"]["fields"]]
    rows = [json.loads(line) for line in lines.splitlines()]
    return {
        "schema": {"fields": [{"name": name} for name in names]},
        "data": [[row.get(name) for name in names] for row in rows],
    }
