"""Commands that check: datasets by their hashes, damaged objects, and other servers.

`odf-node verify`: check the blocks, files and rows of a dataset.

`odf-node verify --heal`: choose sources and tokens, heal the folder, and report the files.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads.verify_job import answer_of, answer_text, report_text

from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import Location, Repositories, remotes_of
from ...client.nodes.targets import read_address
from ...client.transfer.folder import FolderRepository
from ...client.transfer.heal import heal_folder
from ...client.transfer.sync import opened
from ..shell.asking import dataset_base, job_progress
from ..shell.output import (
    DAMAGED,
    json_option,
    print_json,
    stepwise,
)
from ..shell.tokens import any_token, token_at, tokens_of
from .trust import trust_options

if TYPE_CHECKING:
    from odf_storage.datasets.job_payloads.verify_job import VerifyReport
    from odf_storage.datasets.verify.run import Interval

    from ...client.proofs.trust import HeadFinding


NODES_HEAL = "--heal is for a folder; a node heals what it has by itself"


def healed_at(where: str, token: str | None) -> list[dict[str, Any]]:
    """Fetch damaged and missing files of a folder from `Remotes.copies`, and report each of them.

    Raises:
        UsageError: `where` is no folder, or the command line names a token, which would be sent
            to every host.
        DatasetMissing, FolderBusy, TooMuch
    """
    folder = Location.parse(where).path
    if folder is None:
        raise click.UsageError(NODES_HEAL)
    given = click.get_current_context().get_parameter_source("token")
    if given is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--heal may ask several hosts, and a token is for one: name it in a repository "
            "(odf-node repo add), or in ODF_NODE_TOKEN for the node at ODF_NODE_URL"
        )
    repositories = Repositories()
    tokens = tokens_of(token, repositories)
    copies = remotes_of(folder).copies
    sources = [read_address(text, repositories, tokens=tokens) for text in copies]
    openings = []
    for one in sources:
        name = str(one.location)
        openings.append((name, partial(opened, one.location, one.token)))
    files = heal_folder(FolderRepository(folder), openings)
    return [
        {"object": one.name, "healedFrom": one.source, "problems": list(one.problems)}
        for one in files
    ]


def healed_text(file: dict[str, Any]) -> str:
    """Return a line about a file for a person."""
    if file["healedFrom"] is not None:
        return f"healed: {file['object']} from {file['healedFrom']}"
    why = "; ".join(map(one_line, file["problems"])) or "no place is known to have the dataset"
    return f"not healed: {file['object']} ({why})"


CHANGELOG_IS_LOOKED_AT_HERE = "--changelog is looked at here, and --replay by the node: ask twice"
CHANGELOG_READS_ROWS = "--changelog reads rows; it does not go with --metadata-only"
ATTEST_GOES_WITH_REPLAY = "--attest goes with --replay: the node signs what it executed again"
RECURSIVE_GOES_WITH_REPLAY = "--recursive goes with --replay: a folder does not know its inputs"


@click.command()
@click.argument("where", metavar="DATASET")
@click.option("--metadata-only", is_flag=True, help="Blocks and rules only: no files are read.")
@click.option("--no-rows", is_flag=True, help="Files by their bytes only, not by their rows.")
@click.option("--after", metavar="BLOCK", help="Look only at data behind this block.")
@click.option("--upto", metavar="BLOCK", help="Look only at data up to this block.")
@click.option(
    "--changelog",
    is_flag=True,
    help="Warn of retractions and corrections of rows that do not stand.",
)
@click.option(
    "--replay", is_flag=True, help="Have the node make the executions of a derivative again."
)
@click.option("--recursive", is_flag=True, help="With --replay: the datasets it is made of, too.")
@click.option(
    "--attest", is_flag=True, help="With --replay: have the node sign that all executions agree."
)
@click.option(
    "--heal",
    is_flag=True,
    help="First fetch damaged and missing files from the addresses in DIR/.remotes.json.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each data block.")
@trust_options
@any_token
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    where: str,
    metadata_only: bool,
    no_rows: bool,
    after: str | None,
    upto: str | None,
    changelog: bool,
    replay: bool,
    recursive: bool,
    attest: bool,
    heal: bool,
    verbose: bool,
    token: str | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Check every block, rule, file and row of DATASET.

    For a dataset on a node, the command also checks the head against the node's log of heads, and
    says what it found: confirmed, unwitnessed, stale, rolled back, split view or unlogged.

    With --heal, the command first fetches damaged and missing files of DIR, by hash, from the
    addresses in DIR/.remotes.json: where DIR was pushed to, the last one first, then where it was
    pulled from. The command connects to every address in that file, so read the file before you
    heal a folder that a stranger packed.

    Ends with exit code 6 when something is wrong; each problem names block, file and reason.
    Only --replay executes transforms: the node executes them, for datasets that it has.
    """
    healed, token = healed_at(where, token) if heal and not replay else [], token_at(where, token)
    _refuse({name for name, given in ctx.params.items() if given is True})
    if replay:
        asked = {"metadataOnly": metadata_only, "rows": not no_rows, "recursive": recursive}
        within = {"after": after, "upto": upto}
        how = {"attest": attest, "as_json": as_json, "verbose": verbose}
        ctx.exit(0 if _replayed(where, token, {**asked, **within}, **how) else DAMAGED)
    from odf_storage.datasets.verify.run import verify_chain  # Arrow is slow to load

    with (
        opened(Location.parse(where), token, whole=True) as repository,
        stepwise(quiet=as_json) as progress,
    ):
        report = verify_chain(
            repository,
            objects=not metadata_only,
            logical=not no_rows,
            interval=_interval(after, upto),
            progress=progress,
        )
        if changelog and report.ok and not metadata_only:
            from odf_storage.datasets.read.read import changelog_notes

            notes = (*report.notes, *changelog_notes(repository))
            report = replace(report, notes=notes)
    found = _logged(where, token, report, **wanted)
    healing = {"healed": healed} if heal else {}
    _print(report, found, healing, as_json=as_json, verbose=verbose)
    ctx.exit(0 if report.ok and not (found and found.is_alarm) else DAMAGED)


def _print(
    report: VerifyReport,
    found: HeadFinding | None,
    healing: dict[str, list[dict[str, Any]]],
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    if as_json:
        print_json({**report.to_data(), **healing, **({"log": found.to_data()} if found else {})})
        return
    for file in healing.get("healed", ()):
        click.echo(healed_text(file))
    click.echo(report_text(report, verbose=verbose))
    if found is not None:
        click.echo(found.text)


def _logged(
    where: str,
    token: str | None,
    report: VerifyReport,
    **wanted: Any,
) -> HeadFinding | None:
    """Check the head that was verified against the log of its node."""
    if report.dataset_id is None:
        return None
    from ...client.proofs.trust import check_head

    dataset, head = DatasetId.parse(report.dataset_id), Multihash.parse(report.head)
    return check_head(Location.parse(where), dataset, head, token, **wanted)


def _refuse(given: set[str]) -> None:
    """Refuse options that do not go together. Raises `click.UsageError`."""
    wrong = (
        ({"replay", "changelog"} <= given, CHANGELOG_IS_LOOKED_AT_HERE),
        ({"replay", "heal"} <= given, NODES_HEAL),
        ({"changelog", "metadata_only"} <= given, CHANGELOG_READS_ROWS),
        ("recursive" in given and "replay" not in given, RECURSIVE_GOES_WITH_REPLAY),
        ("attest" in given and "replay" not in given, ATTEST_GOES_WITH_REPLAY),
    )
    for is_so, why in wrong:
        if is_so:
            raise click.UsageError(why)


def _interval(after: str | None, upto: str | None) -> Interval:
    from odf_storage.datasets.verify.run import Interval

    return Interval(
        after=None if after is None else Multihash.parse(after),
        upto=None if upto is None else Multihash.parse(upto),
    )


def _replayed(
    where: str,
    token: str | None,
    asked: dict[str, Any],
    *,
    attest: bool,
    as_json: bool,
    verbose: bool,
) -> bool:
    """Have the node verify the dataset, print its report, and return whether all is well. With
    `attest`, the node signs what it found, and keeps that as an attestation."""
    with open_http() as http, stepwise(quiet=as_json) as step:
        api, jobs, told = (
            NodeApi(dataset_base(where), token, http=http),
            set[str](),
            job_progress(step),
        )

        def seen(job: dict[str, Any]) -> None:
            jobs.add(str(job.get("id")))
            if told is not None:
                told(job)

        answer = api.act("verify", seen=seen if attest else told, **asked)
        is_ok = bool(answer.get("ok"))
        if not as_json:  # before the node may refuse to sign what it found
            click.echo(answer_text(answer_of(answer), verbose=verbose))
        signed = api.act("attestations/replay", job=jobs.pop()) if attest and is_ok else None
    if as_json:
        print_json(answer if signed is None else {**answer, "attestation": signed})
    elif signed is not None:
        click.echo("attested: odf-node attestations list shows it")
    return is_ok
