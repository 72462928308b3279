"""`odf-node watch`: print changes of a node as they happen."""

from __future__ import annotations

import json
from typing import Any

import click

from ..client.events import Event, follow
from ..client.http import open_http
from ..client.text import one_line
from .ingest import dataset_base
from .output import json_option
from .tokens import token_option


@click.command()
@click.argument("url", metavar="URL")
@click.option("--rows", is_flag=True, help="Also print the rows that blocks add.")
@click.option(
    "--since", metavar="ID", help="Go on behind the event with this id, or from the `beginning`."
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many blocks.")
@token_option
@json_option
def watch(
    url: str, rows: bool, since: str | None, count: int | None, token: str | None, as_json: bool
) -> None:
    """Print each new block of the dataset, or of all datasets of the node, at URL.

    The command continues after broken connections and restarts of the node, and misses no block.
    `--json` prints one event a line; pass its `id` to `--since` to continue after that event.
    """
    seen = 0
    with open_http() as http:
        for event in follow(http, f"{dataset_base(url)}events", token, last=since, rows=rows):
            if as_json:
                named = {"id": event.id, "event": event.kind, **_named(event.data)}
                click.echo(json.dumps(named, ensure_ascii=False))
            else:
                click.echo(event_text(event))
            seen += event.kind == "block"
            if seen == count:
                return


def event_text(event: Event) -> str:
    """Return the event as one line, followed by one line for each row."""
    data = event.data
    name = str(data.get("alias", "the node"))
    match event.kind:
        case "position":
            line = f"{name}: from {event.id} on"
        case "reset":
            line = f"{name}: the history was rewritten; its head is {data.get('block')}"
        case _:
            offsets = data.get("offsets")
            added = f", offsets {offsets['start']} to {offsets['end']}" if offsets else ""
            number, kind = data.get("sequenceNumber"), data.get("event")
            time, block = data.get("systemTime"), data.get("block")
            line = f"{time} {name} #{number} {kind}{added} {block}"
    rows = [f"  {one_line(str(row), 1000)}" for row in data.get("rows", ())]
    return "\n".join([one_line(line, 500), *rows])


def _named(data: dict[str, Any]) -> dict[str, Any]:
    """Rename the key `event` to `metadataEvent`; `event` is the kind of the stream's event."""
    return {("metadataEvent" if key == "event" else key): value for key, value in data.items()}
