"""`odf-node log`: print the chain of a dataset, newest block first."""

from __future__ import annotations

from itertools import islice

import click

from ..client.event_lines import block_data, summary
from ..client.sync import opened
from ..client.urls import Location
from ..client.walk import ChainReader
from .output import json_option, print_json
from .tokens import token_option


@click.command()
@click.argument("where", metavar="DATASET")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Show only so many of the newest blocks."
)
@token_option
@json_option
def log(where: str, limit: int | None, token: str | None, as_json: bool) -> None:
    """Show the blocks of a dataset, newest first: number, time, event, hash."""
    with opened(Location.parse(where), token) as repository:
        blocks = islice(ChainReader(repository).back(repository.head()), limit)
        if as_json:
            print_json([block_data(block) for block in blocks])
            return
        for block in blocks:
            click.echo(
                f"#{block.sequence_number:<5} {block.block.system_time}  {summary(block.event)}\n"
                f"       {block.hash}"
            )
