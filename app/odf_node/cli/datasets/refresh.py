"""Commands `refresh` and `events`: follow what changes.

`odf-node refresh`: have a node fetch or compute new rows of a dataset.

`odf-node watch`: print changes of a node as they happen.
"""

from __future__ import annotations

import json
from typing import Any

import click

from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi
from ...client.uses.events import Event, follow
from ..shell.asking import dataset_base, job_progress, receipt_text
from ..shell.output import json_option, print_json, stepwise
from ..shell.tokens import token_option


@click.command()
@click.argument("url", metavar="DATASET")
@click.option("--exhaust-sources", is_flag=True, help="Go on while the source has more to give.")
@click.option(
    "--fetch-uncacheable",
    is_flag=True,
    help="Fetch also when nothing tells what was fetched before.",
)
@click.option(
    "--max-vanish-percent",
    type=click.IntRange(0, 100),
    metavar="N",
    help="Rows of a snapshot that may vanish at once; default: as the node is set up.",
)
@click.option(
    "--late-files",
    is_flag=True,
    help="Take also files of a folder that were never read and sort before the last one read.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="NAME",
    help="Take this file of a folder, also if it was read before; may be repeated.",
)
@click.option("--recursive", is_flag=True, help="First refresh all that the dataset depends on.")
@click.option(
    "--reset-on-diverged-input",
    is_flag=True,
    help="Compute a derivative anew if the history of an input was rewritten.",
)
@click.option("--force", is_flag=True, help="Let a mirror follow a history that was replaced.")
@token_option
@json_option
def refresh(
    url: str,
    exhaust_sources: bool,
    fetch_uncacheable: bool,
    max_vanish_percent: int | None,
    late_files: bool,
    files: tuple[str, ...],
    recursive: bool,
    reset_on_diverged_input: bool,
    force: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Fetch new data from the source of DATASET, or compute a derivative, and wait.

    Prints the receipt, as `ingest` does.
    """
    with open_http() as http, stepwise(quiet=as_json) as step:
        receipt = NodeApi(dataset_base(url), token, http=http).refresh(
            exhaust_sources=exhaust_sources,
            fetch_uncacheable=fetch_uncacheable,
            max_vanish_percent=max_vanish_percent,
            late_files=late_files,
            files=files,
            recursive=recursive,
            reset_on_diverged=reset_on_diverged_input,
            force=force,
            seen=job_progress(step),
        )
    if as_json:
        print_json(receipt)
    else:
        click.echo(refresh_text(receipt))


def refresh_text(receipt: dict[str, Any]) -> str:
    """Return the receipt as text for a person, with remarks about the source."""
    if "objects" in receipt:  # the receipt of a mirror
        brought = ", ".join(f"{receipt[key]} {key}" for key in ("blocks", "objects", "bytes"))
        return f"{receipt['outcome']}: {brought}\nhead {receipt['head']}"
    lines = [receipt_text(receipt)]
    if receipt.get("noSourceDefined"):
        lines.append("the dataset has no polling source")
    if receipt.get("uncacheable"):
        lines.append(
            "nothing was fetched: nothing tells what was fetched before (--fetch-uncacheable)"
        )
    if receipt.get("reason"):
        lines.append(str(receipt["reason"]))
    if receipt.get("wasReset"):
        lines.append("an input was rewritten, so everything was computed anew")
    if "iterations" in receipt:
        if receipt.get("hasMore"):
            lines.append("more input waits; the node goes on with it")
    elif receipt.get("hasMore"):
        lines.append("the source has more to give (--exhaust-sources)")
    return "\n".join(lines)


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
