"""`odf-node trust`, `evidence`, `monitor`: the logs of nodes, which heads are checked against."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from odf_protocol.errors import BadInput, NodeError, NotFound

from ...client.nodes.limits import one_line
from ..shell.files import INPUT
from ..shell.output import (
    DAMAGED,
    FAILED,
    json_option,
    print_json,
)
from ..shell.tokens import any_token, token_at

MAX_LINE = 4000


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that check heads against the log of a node."""
    for option in (
        click.option(
            "--policy",
            type=INPUT,
            help="Witnesses that must have signed the log; default: `policy` in your settings.",
        ),
        click.option("--fresh", help="Refuse what was signed longer ago: 10m, 2h, 1d."),
    ):
        command = option(command)
    return command


@click.group()
def trust() -> None:
    """Show and forget the logs of nodes that your commands have seen."""


@trust.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List nodes with the key of their log."""
    from ...client.proofs.trust import LogMemory

    known = LogMemory().all()
    if as_json:
        print_json({"logs": [{"node": node, "key": log.key} for node, log in known.items()]})
        return
    for node, log in sorted(known.items()):
        click.echo(f"{node} {log.key}")


@trust.command()
@click.argument("node", metavar="URL")
@json_option
def show(node: str, as_json: bool) -> None:
    """Print the log of the node at URL, and its key as a witness, as a policy file.

    Such a file is for --policy, and for ODF_TRUST_POLICY and ODF_TRUST_WITNESS_FOR of a node. Ask
    the administrator by another way whether the keys are the right ones.
    """
    from odf_protocol.trust.checkpoints import MAX_ORIGIN_CHARS
    from odf_protocol.trust.notes import MAX_NOTE_BYTES, Note, NoteKey

    from ...client.nodes.http import open_http
    from ...client.nodes.limits import LIMITS
    from ...client.nodes.node_api import NodeApi, NothingThere
    from ...client.proofs.trust import first_seen

    base, limits = _base(node), replace(LIMITS, metadata_bytes=MAX_NOTE_BYTES)
    with open_http(limits) as http:
        api = NodeApi(base, token_at(base, None), http=http, limits=limits)
        log = None
        with suppress(NothingThere):  # nothing was signed yet
            log = first_seen(api, Note.parse(api.raw("log/checkpoint"))).key
        key = NoteKey.parse(str(api.look("log/witness").get("key"))[: 2 * MAX_ORIGIN_CHARS])
    if as_json:
        print_json({"node": base, "log": log, "witness": str(key)})
        return
    name = key.name.partition("/")[0]
    for line in (
        f"log {log} {base}log" if log else f"# {base} has signed nothing yet",
        f"witness {name} {key} {base}log/witness",
        f"quorum {name}",
    ):
        click.echo(one_line(line, MAX_LINE))


def _base(node: str) -> str:
    return node.rstrip("/") + "/"


@trust.command()
@click.argument("node", metavar="URL")
@json_option
def forget(node: str, as_json: bool) -> None:
    """Forget key and newest checkpoint of the log of the node at URL.

    The next command takes the key that the node shows then, so make sure that it is the new one.
    """
    from ...client.proofs.trust import LogMemory

    base = _base(node)
    if not LogMemory().forget(base):
        raise NotFound("LogUnknown", f"no log of {base} was seen; `odf-node trust list` shows them")
    print_json({"forgotten": base}) if as_json else click.echo(f"forgot the log of {base}")


@click.command()
@click.argument("file", type=INPUT)
@click.pass_context
@json_option
def evidence(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Check FILE, in which a command wrote that a log contradicts itself. Needs no network.

    Ends with exit code 6 if FILE proves that, and with 0 if the log itself is needed to decide.
    """
    from msgspec import DecodeError

    from odf_protocol.typed import decode_json

    from ...client.proofs.trust import MAX_EVIDENCE_BYTES, Evidence, proven_by

    with file.open("rb") as stream:
        raw = stream.read(MAX_EVIDENCE_BYTES + 1)
    if len(raw) > MAX_EVIDENCE_BYTES:
        raise BadInput("EvidenceTooLarge", f"{file} has more than {MAX_EVIDENCE_BYTES} bytes")
    try:
        found = decode_json(raw, Evidence)
    except (DecodeError, UnicodeDecodeError) as wrong:
        raise BadInput("MalformedEvidence", f"{file} is no evidence: {wrong}") from None
    proven = proven_by(found)
    if as_json:
        print_json({"proven": proven, "word": found.word, "why": found.why, "key": found.key})
    else:
        signed = f"both signed by {found.key}" if found.against else f"signed by {found.key}"
        click.echo(f"{found.word}: {found.why} ({signed})")
        click.echo(f"proven: {proven}" if proven else "not proven by this file alone: ask the log")
    ctx.exit(DAMAGED if proven else 0)


@click.command()
@click.argument("nodes", metavar="URL…", nargs=-1, required=True)
@any_token
@json_option
@click.pass_context
def monitor(ctx: click.Context, nodes: tuple[str, ...], token: str | None, as_json: bool) -> None:
    """Read the logs of nodes, and compare them with the heads that the nodes serve.

    The first run reads a log from its beginning, and later ones what is new. Run it regularly. Ends
    with exit code 6 if a log does not continue what was seen of it, or if the head of a dataset is
    not that of its newest leaf; with 1 if a node could not be asked.
    """
    from ...client.proofs.monitor import Monitor, report_data

    named = ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE
    if named and len(nodes) > 1:
        raise click.UsageError("a token is for one node: name one, or log in at each")
    found, failed, is_alarm = list[dict[str, Any]](), False, False
    for node in map(_base, nodes):
        try:
            report = Monitor(node=node, token=token_at(node, token)).look()
        except NodeError as error:
            failed = True
            found.append({"node": node, "error": error.message})
            why = one_line(error.message, MAX_LINE)
            click.echo(f"{node} could not be followed: {why}", err=True)
            continue
        found.append(report_data(node, report))
        is_alarm = is_alarm or bool(report.findings)
        if not as_json:
            click.echo(f"{node} {report.size} leaves, {report.datasets} datasets")
            for finding in report.findings:
                click.echo(f"  {one_line(finding.text, MAX_LINE)}")
    if as_json:
        print_json({"nodes": found})
    ctx.exit(DAMAGED if is_alarm else FAILED if failed else 0)
