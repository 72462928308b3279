"""`odf-node log`: the chain of a dataset, newest block first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash

from ..client.event_lines import event_name, summary
from ..client.sync import opened
from ..client.urls import Location
from ..client.walk import ChainReader
from .output import json_option, print_json
from .tokens import token_option


@click.command()
@click.argument("where", metavar="DIR|URL")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Show only so many of the newest blocks."
)
@token_option
@json_option
def log(where: str, limit: int | None, token: str | None, as_json: bool) -> None:
    """Show the blocks of a dataset, newest first: number, time, event, hash."""
    with opened(Location.parse(where), token) as repository:
        blocks = newest_first(ChainReader(repository), repository.head(), limit)
        if as_json:
            print_json([block_data(block) for block in blocks])
            return
        for block in blocks:
            click.echo(
                f"#{block.sequence_number:<5} {block.block.system_time}  {summary(block.event)}\n"
                f"       {block.hash}"
            )


def newest_first(chain: ChainReader, head: Multihash, limit: int | None) -> Iterator[HashedBlock]:
    """Blocks from the head backwards, each one checked against its hash."""
    block: HashedBlock | None = chain.block(head)
    shown = 0
    while block is not None and (limit is None or shown < limit):
        yield block
        shown += 1
        block = chain.before(block) if limit is None or shown < limit else None


def block_data(block: HashedBlock) -> dict[str, Any]:
    """One line of the log as JSON-compatible data."""
    return {
        "hash": str(block.hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.block.system_time),
        "prevBlockHash": str(block.prev) if block.prev else None,
        "event": event_name(block.event),
        "summary": summary(block.event),
    }
