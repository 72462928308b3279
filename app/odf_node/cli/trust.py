"""`odf-node head-log`: the log of heads of a node, on its machine.

`odf-node trust` and `evidence`: the logs of other nodes, which commands remember.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import BadInput, Conflict, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from .output import DAMAGED, json_option, print_json
from .upkeep import all_store_options, opened_stores, record_command

if TYPE_CHECKING:
    from ..client.remotes import Location
    from ..client.trust import Finding


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that check heads against the log of a node."""
    for option in (
        click.option(
            "--policy",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="Witnesses that must have signed the log; default: `policy` in your settings.",
        ),
        click.option("--fresh", help="Refuse what was signed longer ago: 10m, 2h, 1d."),
    ):
        command = option(command)
    return command


def looked_up(
    location: Location,
    dataset: DatasetId,
    head: Multihash,
    token: str | None,
    *,
    fresh: str | None,
    policy: Path | None,
) -> Finding | None:
    """Check a head against the log of its node; None if it is on no node."""
    if not location.base:
        return None
    from odf_protocol.trust.judging import Wanted
    from odf_storage.runtime.clock import parse_duration

    from ..client.trust import HeadCheck, LogMemory, policy_at

    fresh_s = None if fresh is None else parse_duration(fresh).total_seconds()
    wanted = Wanted(policy=policy_at(policy), fresh_s=fresh_s)
    check = HeadCheck(memory=LogMemory(), wanted=wanted)
    return check.check(location.base, dataset, head, token=token)


@click.group()
def trust() -> None:
    """Show and forget the logs of nodes that your commands have seen."""


@trust.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List nodes with the key of their log."""
    from ..client.trust import LogMemory

    known = LogMemory().all()
    if as_json:
        print_json({"logs": [{"node": node, "key": log.key} for node, log in known.items()]})
        return
    for node, log in sorted(known.items()):
        click.echo(f"{node} {log.key}")


@trust.command()
@click.argument("node", metavar="URL")
@json_option
def forget(node: str, as_json: bool) -> None:
    """Forget key and newest checkpoint of the log of the node at URL.

    The next command takes the key that the node shows then, so make sure that it is the new one.
    """
    from ..client.trust import LogMemory

    base = node.rstrip("/") + "/"
    if not LogMemory().forget(base):
        raise NotFound("LogUnknown", f"no log of {base} was seen; `odf-node trust list` shows them")
    print_json({"forgotten": base}) if as_json else click.echo(f"forgot the log of {base}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.pass_context
@json_option
def evidence(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Check FILE, in which a command wrote that a log contradicts itself. Needs no network.

    Ends with exit code 6 if FILE proves that, and with 0 if the log itself is needed to decide.
    """
    from odf_protocol.typed import decode_json

    from ..client.trust import MAX_EVIDENCE_BYTES, Evidence, proven_by

    with file.open("rb") as stream:
        raw = stream.read(MAX_EVIDENCE_BYTES + 1)
    if len(raw) > MAX_EVIDENCE_BYTES:
        raise BadInput("EvidenceTooLarge", f"{file} has more than {MAX_EVIDENCE_BYTES} bytes")
    found = decode_json(raw, Evidence)
    proven = proven_by(found)
    if as_json:
        print_json({"proven": proven, "word": found.word, "why": found.why, "key": found.key})
    else:
        signed = f"both signed by {found.key}" if found.against else f"signed by {found.key}"
        click.echo(f"{found.word}: {found.why} ({signed})")
        click.echo(f"proven: {proven}" if proven else "not proven by this file alone: ask the log")
    ctx.exit(DAMAGED if proven else 0)


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
    from odf_protocol.trust.notes import encoded

    from ..service.trust.log import lost_checkpoint

    with opened_stores(where) as (stores, _):
        lost = lost_checkpoint(stores)
        if lost is None:
            raise Conflict("NoGap", "the database continues what was signed; nothing is to be done")
        stores.head_log.accept_gap(lost.size, lost.root)
        record_command(stores, "log.resume", size=lost.size, root=encoded(lost.root))
    said = f"the gap up to {lost.size} leaves is accepted; a running node signs at its next move"
    print_json({"acceptedSize": lost.size}) if as_json else click.echo(said)
