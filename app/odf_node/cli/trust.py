"""`odf-node trust` and `evidence`: the logs of nodes, which commands check heads against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from .output import DAMAGED, json_option, print_json

if TYPE_CHECKING:
    from ..client.remotes import Location
    from ..client.trust import Finding


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that check heads against the log of a node."""
    for option in (
        click.option(
            "--policy",
            type=click.Path(path_type=Path),
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
@click.argument("file", type=click.Path(path_type=Path))
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
