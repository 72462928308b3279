"""`odf-node job`: list, show and cancel the jobs of a dataset."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import click

from ...client.nodes.home import HOME, home_node
from ...client.nodes.http import open_http
from ...client.nodes.node_api import NodeApi
from ..reads.sql import rows_of_job, write_pieces
from ..shell.asking import dataset_base
from ..shell.output import json_option, print_json
from ..shell.tokens import token_option
from .schedules import run_line

SHOWN_CHARS = 60
"""Number of characters of a query that a list shows."""


def _one_job(command: Any) -> Any:
    """Add the arguments NODE, which `ODF_NODE_URL` may name instead, and ID."""

    @functools.wraps(command)
    def with_job(*, words: tuple[str, ...], **given: Any) -> Any:
        *nodes, name = words
        node = nodes[0] if nodes else home_node()
        if node is None or len(nodes) > 1:
            raise click.UsageError(f"name the job by its node and ID; {HOME} may name the node")
        return command(node=node, name=name, **given)

    argument = click.argument("words", metavar="[NODE] ID", nargs=-1, required=True)
    return argument(with_job)


@click.group()
def job() -> None:
    """List, show and cancel jobs: posts, polls and other work of a node."""


@job.command("list")
@click.argument("url", metavar="DATASET")
@click.option("--status", metavar="S", help="Only these, separated by commas.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="How many; default: 20.")
@token_option
@json_option
def listed(url: str, status: str | None, limit: int, token: str | None, as_json: bool) -> None:
    """List the jobs of DATASET, newest first; for a node, your background queries."""
    with open_http() as http:
        api = NodeApi(dataset_base(url), token, http=http)
        found = api.ask("GET", "jobs", status=status, limit=str(limit))
    if as_json:
        print_json(found)
        return
    for each in found.get("jobs", []):
        asked = " ".join(each.get("query", "").split())[:SHOWN_CHARS]
        click.echo(f"{run_line(each)}  {asked}".rstrip())


@job.command("show")
@_one_job
@token_option
@json_option
def show(node: str, name: str, token: str | None, as_json: bool) -> None:  # noqa: ARG001
    """Show a job of the node at NODE with its receipt or problem, always as JSON."""
    with open_http() as http:
        print_json(NodeApi(dataset_base(node), token, http=http).ask("GET", f"jobs/{name}"))


@job.command("rejected")
@_one_job
@token_option
@json_option
def rejected(node: str, name: str, token: str | None, as_json: bool) -> None:
    """Print the rows that a batch left out: position, fault and text, one object a line."""
    with open_http() as http:
        rows = NodeApi(dataset_base(node), token, http=http).raw(f"jobs/{name}/rejected")
    if as_json:
        print_json([json.loads(row) for row in rows.splitlines()])
    else:
        sys.stdout.buffer.write(rows)


@job.command("rows")
@_one_job
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@token_option
@json_option
def rows(node: str, name: str, output: Path | None, token: str | None, as_json: bool) -> None:
    """Print the rows of a query that ran as a job, in the format that the query chose.

    `--json` prints the job instead.
    """
    with open_http() as http:
        api = NodeApi(dataset_base(node), token, http=http)
        if as_json:
            print_json(api.ask("GET", f"jobs/{name}"))
            return
        write_pieces(rows_of_job(api, name), output)


@job.command("cancel")
@_one_job
@token_option
@json_option
def cancel(node: str, name: str, token: str | None, as_json: bool) -> None:
    """Cancel a job that has not ended. The node commits nothing of it."""
    with open_http() as http:
        found = NodeApi(dataset_base(node), token, http=http).ask("DELETE", f"jobs/{name}")
    if as_json:
        print_json(found)
    else:
        click.echo(run_line(found))
