"""`odf-node pull` and `odf-node push`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from storage.values import Visibility

from ..client import sync
from ..client.http import Overloaded, Unreachable
from ..client.receive import Outcome
from ..client.text import one_line
from ..client.urls import Location
from .output import json_option, print_json, token_option
from .watch import watched


@click.command()
@click.argument("source", metavar="URL")
@click.argument("target", metavar="DIR")
@click.option("--force", is_flag=True, help="Replace a folder that is ahead or has diverged.")
@click.option("--mirror", is_flag=True, help="Keep the folder in step until interrupted.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two pulls of a mirror.",
)
@token_option
@json_option
def pull(
    source: str,
    target: str,
    force: bool,
    mirror: bool,
    every: float,
    token: str | None,
    as_json: bool,
) -> None:
    """Copy a dataset, or what is new in it, into the folder DIR.

    URL is odf+http(s)://… (smart protocol), http(s)://… (simple protocol) or another folder.
    Every block and object is checked against its hash before anything becomes visible; what
    an interrupted pull has fetched is not fetched again. A mirror prints what it pulled, and
    goes on when the source cannot be reached for a while.
    """

    def once() -> Outcome:
        with watched(quiet=as_json) as progress:
            return sync.pull(
                Location.parse(source),
                Location.parse(target),
                token=token,
                force=force,
                progress=progress,
            )

    if not mirror:
        _print(once(), as_json=as_json)
        return
    for outcome in _mirrored(once, every):
        _print(outcome, as_json=as_json)


def _mirrored(once: Callable[[], Outcome], every: float) -> Iterator[Outcome]:
    """Pull again and again; what was new. Ends with the first failure that is no broken line."""
    first = True
    while True:
        try:
            outcome = once()
            if first or outcome.outcome == "updated":
                yield outcome
            first = False
        except (Unreachable, Overloaded) as broken:
            click.echo(f"odf-node: {one_line(broken.message)}; trying again", err=True)
        time.sleep(every)


@click.command()
@click.argument("source", metavar="DIR")
@click.argument("target", metavar="URL")
@click.option(
    "--visibility",
    type=click.Choice(["private", "public"]),
    default="private",
    show_default=True,
    help="Who may read a dataset that this push creates.",
)
@click.option("--force", is_flag=True, help="Replace the node's history if it has diverged.")
@token_option
@json_option
def push(
    source: str, target: str, visibility: str, force: bool, token: str | None, as_json: bool
) -> None:
    """Publish the dataset in the folder DIR, or what is new in it, at URL.

    URL is odf+http(s)://… or a folder. A dataset that is not there yet is created.
    """
    with watched(quiet=as_json) as progress:
        outcome = sync.push(
            Location.parse(source),
            Location.parse(target),
            token=token,
            force=force,
            visibility=Visibility(visibility.capitalize()),
            progress=progress,
        )
    _print(outcome, as_json=as_json)


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON-compatible data."""
    return {
        "outcome": outcome.outcome,
        "oldHead": str(outcome.old_head) if outcome.old_head else None,
        "newHead": str(outcome.new_head),
        "blocks": outcome.blocks,
        "objects": outcome.objects,
        "bytes": outcome.bytes,
    }


def _print(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        print_json(outcome_data(outcome))
    elif outcome.outcome == "up-to-date":
        click.echo(f"up to date at {outcome.new_head}")
    else:
        click.echo(
            f"updated to {outcome.new_head}: {outcome.blocks} block(s), "
            f"{outcome.objects} object(s), {outcome.bytes} bytes"
        )
