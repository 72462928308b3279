"""`odf-node sql`: run SQL over datasets of a node, or over folders on this machine.

`odf-node sql --background`: run a query as a job of the node on Spark, then read its rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from odf_protocol.errors import BadInput, NodeError, NotFound
from odf_protocol.identity import DatasetAlias, MalformedName
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads.query_job import DIALECT
from odf_storage.datasets.read.formats import Format

from ...client.nodes.home import HOME
from ...client.nodes.http import open_http
from ...client.nodes.later import httpx
from ...client.nodes.limits import in_columns, place_in
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import node_base
from ..shell.asking import job_progress
from ..shell.files import whole_file
from ..shell.output import json_option, print_json, stepwise
from ..shell.tokens import token_option
from .sql_sources import (
    PIECE_BYTES,
    TABLE_ROWS,
    FolderQuery,
    NodeQuery,
    SqlSource,
    lines_as_list,
)


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
        "limit": TABLE_ROWS + 1 if limit is None and form is None else limit,
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
    from ...service.query.inputs import views_by_alias

    found = {}
    for alias in views_by_alias(query):
        with suppress(MalformedName, NotFound):
            path = str(DatasetAlias.parse(alias))
            found[alias] = str(NodeApi(f"{base}{path}", token, http=http).dataset()["id"])
    if len(found) != 1:
        raise BadInput(
            "OneDatasetWanted", f"--at is for a query of one dataset, not of {len(found)}"
        )
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


TABLE = "table"
MAX_CELL_CHARS = 60
VERIFIED = "--verify is for answers of a node, as a table or by --json"
FORMS = (TABLE, *(form.value for form in Format if form is not Format.GEOPARQUET))


@click.command()
@click.argument("query")
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--node",
    metavar="URL",
    envvar=HOME,
    help=f"The node that is asked; default without DIR: ${HOME}.",
)
@click.option("--at", metavar="BLOCK", help="As of this block of the one dataset that is used.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="Most rows; default: 100 in a table and by --json, else as many as a query may have.",
)
@click.option("--format", "form", type=click.Choice(FORMS), default=TABLE, show_default=True)
@click.option("--verify", is_flag=True, help="Check the proof of the answer; a table or --json.")
@click.option(
    "--key", metavar="DID:KEY", help="With --verify: the key that has to have signed the answer."
)
@click.option(
    "--background",
    is_flag=True,
    help="As a job of the node on Spark, in the SQL of Spark; wait for it.",
)
@click.option("--no-wait", is_flag=True, help="With --background: print where to look.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@token_option
@json_option
def sql(
    query: str,
    folders: tuple[Path, ...],
    node: str | None,
    at: str | None,
    limit: int | None,
    form: str,
    verify: bool,
    key: str | None,
    background: bool,
    no_wait: bool,
    output: Path | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Run QUERY, one SELECT, over datasets of a node or over datasets in folders.

    A table is the name of a dataset, in double quotes if necessary, or the name of a folder.
    `--json` prints the whole answer with its inputs; for a job, it prints the receipt.
    """
    context = click.get_current_context()
    if folders and context.get_parameter_source("node") is ParameterSource.ENVIRONMENT:
        node = None
    is_document = as_json or form == TABLE
    is_hidden = output is not None or no_wait
    _refuse(
        ((node is None) == (not folders), f"name a node by --node or {HOME}, or folders"),
        (verify and (node is None or not is_document), VERIFIED),
        (key is not None and not verify, "--key is for --verify"),
        (background and (node is None or verify), "--background is for a node, without --verify"),
        (no_wait and not background, "--no-wait is for --background"),
        (
            form in ("parquet", "arrow") and not is_hidden and sys.stdout.isatty(),
            f"{form} is no text; name a file with --output",
        ),
    )
    block = None if at is None else Multihash.parse(at)
    if background and node is not None:
        found = ask_in_background(
            node,
            token,
            query,
            block=block,
            limit=limit,
            form=None if form == TABLE else Format(form),
            output=output,
            wait=not no_wait,
            as_json=as_json,
        )
        if found is not None:
            _print_table(found, limit)
        return
    source: SqlSource = (
        FolderQuery(folders, block) if node is None else NodeQuery(node, token, block, key)
    )
    with _pointing(query, quiet=as_json):
        if not is_document:
            write_pieces(source.rows(query, Format(form), limit=limit), output)
            return
        answer = source.document(query, limit=limit, verify=verify, as_table=not as_json)
    _print_document(answer, source.remarks, limit, as_json=as_json)


@contextmanager
def _pointing(query: str, *, quiet: bool) -> Iterator[None]:
    """Before an error that knows its place in the query, print that line and a mark below it."""
    try:
        yield
    except NodeError as error:
        for each in () if quiet else place_in(query, error.facts) or ():
            click.echo(each, err=True)
        raise


def _refuse(*wrong: tuple[bool, str]) -> None:
    """Raise the usage error of the first condition that holds."""
    for holds, usage in wrong:
        if holds:
            raise click.UsageError(usage)


def _print_document(
    answer: dict[str, Any], remarks: list[str], limit: int | None, *, as_json: bool
) -> None:
    for remark in remarks:
        click.echo(remark, err=True)
    if not as_json:
        _print_table(answer["output"], limit)
        return
    print_json(answer)
    if limit is None and len(answer["output"]["data"]) == TABLE_ROWS:
        click.echo(f"{TABLE_ROWS} row(s); for more, if there are any: --limit N", err=True)


def _print_table(output: dict[str, Any], limit: int | None) -> None:
    """Print the rows; without a limit the first ones, if there are more of them."""
    names = [field["name"] for field in output["schema"]["fields"]]
    rows = output["data"] if limit is not None else output["data"][:TABLE_ROWS]
    right = {
        at
        for at in range(len(names))
        if rows and all(isinstance(row[at], int | float | None) for row in rows)
    }
    cells = [[_cell(value) for value in row] for row in rows]
    for line in in_columns([names, ["-" * len(name) for name in names], *cells], right=right):
        click.echo(line)
    more = "the first " if len(rows) < len(output["data"]) else ""
    click.echo(f"{more}{len(rows)} row(s){'; for more: --limit N' if more else ''}", err=True)


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"
