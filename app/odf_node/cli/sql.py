"""`odf-node sql`: run SQL over datasets of a node, or over folders on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from odf_protocol.errors import NodeError
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.formats import Format

from ..client.environment import HOME
from ..client.text import in_columns, pointed
from .output import json_option, print_json
from .sql_background import ask_in_background, write_pieces
from .sql_sources import FolderQuery, NodeQuery, Source
from .tokens import token_option

TABLE = "table"
MAX_CELL_CHARS = 60
VERIFIED = "--verify is for answers of a node, as a table or by --json"
FORMS = (TABLE, *(form.value for form in Format))


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
    help="Most rows; default: 100 in a table, else as many as a query may have.",
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
            _print_table(found)
        return
    source: Source = (
        FolderQuery(folders, block) if node is None else NodeQuery(node, token, block, key)
    )
    with _pointing(query, quiet=as_json):
        if not is_document:
            write_pieces(source.rows(query, Format(form), limit=limit), output)
            return
        answer = source.document(query, limit=limit, verify=verify, as_table=not as_json)
    _print_document(answer, source.remarks, as_json=as_json)


@contextmanager
def _pointing(query: str, *, quiet: bool) -> Iterator[None]:
    """Before an error that knows its place in the query, print that line and a mark below it."""
    try:
        yield
    except NodeError as error:
        line, column = error.facts.get("line"), error.facts.get("column")
        lines = query.split("\n")
        if not quiet and isinstance(line, int) and isinstance(column, int) and line <= len(lines):
            for each in pointed(lines[line - 1], column):
                click.echo(each, err=True)
        raise


def _refuse(*wrong: tuple[bool, str]) -> None:
    """Raise the usage error of the first condition that holds."""
    for holds, usage in wrong:
        if holds:
            raise click.UsageError(usage)


def _print_document(answer: dict[str, Any], remarks: list[str], *, as_json: bool) -> None:
    for remark in remarks:
        click.echo(remark, err=True)
    if as_json:
        print_json(answer)
    else:
        _print_table(answer["output"])


def _print_table(output: dict[str, Any]) -> None:
    names = [field["name"] for field in output["schema"]["fields"]]
    rows = output["data"]
    right = {
        at
        for at in range(len(names))
        if rows and all(isinstance(row[at], int | float | None) for row in rows)
    }
    cells = [[_cell(value) for value in row] for row in rows]
    for line in in_columns([names, ["-" * len(name) for name in names], *cells], right=right):
        click.echo(line)
    click.echo(f"{len(rows)} row(s)", err=True)


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"
