"""`odf-node head-log`: the log of heads of a node, on its machine."""

from __future__ import annotations

from typing import Any

import click

from odf_protocol.errors import Conflict
from odf_protocol.trust.notes import encoded

from .output import print_json
from .upkeep import all_store_options, opened_stores, record_command


@click.group("head-log")
def head_log() -> None:
    """Show and resume the log of heads of a node, on its machine."""


@head_log.command()
@all_store_options
def show(as_json: bool, **where: Any) -> None:
    """Print the newest checkpoint, and whether the database continues what was signed."""
    from ..service.trust.log import lost_checkpoint

    with opened_stores(where) as (stores, _):
        state, lost = stores.head_log.state(), lost_checkpoint(stores)
    checkpoint = "" if state is None else state.checkpoint
    if as_json:
        print_json(
            {"checkpoint": checkpoint or None, "lostSize": None if lost is None else lost.size}
        )
        return
    click.echo(checkpoint.rstrip("\n") or "nothing was signed yet")
    if lost is not None:
        click.echo(
            f"the node signed a log of {lost.size} leaves, which this database does not continue; "
            "nothing is signed until you run: odf-node head-log resume --accept-gap"
        )


@head_log.command()
@click.option(
    "--accept-gap", is_flag=True, required=True, help="The lost end of the log stays lost."
)
@all_store_options
def resume(accept_gap: bool, as_json: bool, **where: Any) -> None:  # noqa: ARG001 - required
    """Let a node sign again after a backup of its database was restored.

    The log gets a leaf that tells of the gap. Clients that saw a lost checkpoint will say `rolled
    back`, and they are right: heads that the node had signed are gone.
    """
    from ..service.trust.log import lost_checkpoint

    with opened_stores(where) as (stores, _):
        lost = lost_checkpoint(stores)
        if lost is None:
            raise Conflict("NoGap", "the database continues what was signed; nothing is to be done")
        stores.head_log.accept_gap(lost.size, lost.root)
        record_command(stores, "log.resume", size=lost.size, root=encoded(lost.root))
    said = f"the gap up to {lost.size} leaves is accepted; a running node signs at its next move"
    print_json({"acceptedSize": lost.size}) if as_json else click.echo(said)
