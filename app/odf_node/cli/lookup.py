"""`odf-node lookup`: print rows of a dataset on a node whose columns have given values."""

from __future__ import annotations

import json

import click

from ..client.http import open_http
from ..client.node_api import NodeApi
from .ingest import dataset_base
from .output import json_option, print_json
from .tokens import token_option


@click.command()
@click.argument("url", metavar="DATASET")
@click.argument("values", metavar="COLUMN=VALUE...", nargs=-1, required=True)
@click.option("--at", metavar="BLOCK", help="As of this block; default: the head.")
@click.option("--state", is_flag=True, help="Only rows that stand, not all there were.")
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Most rows.")
@token_option
@json_option
def lookup(
    url: str,
    values: tuple[str, ...],
    at: str | None,
    state: bool,
    limit: int,
    token: str | None,
    as_json: bool,
) -> None:
    """Print rows of DATASET whose columns have these values, one a line."""
    pairs = [each.partition("=") for each in values]
    if not all(name and sign for name, sign, _ in pairs):
        raise click.UsageError("name a column and its value: COLUMN=VALUE")
    with open_http() as http:
        found = NodeApi(dataset_base(url), token, http=http).lookup(
            [name for name, _, _ in pairs],
            [value for _, _, value in pairs],
            block=at,
            state=state,
            limit=limit,
        )
    if as_json:
        print_json(found)
        return
    for row in found["data"]:
        click.echo(json.dumps(row, ensure_ascii=False))
