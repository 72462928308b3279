"""`odf-node verify`: is a dataset what it claims to be?"""

from __future__ import annotations

import click

from protocol.multihash import Multihash
from storage.verify import Interval, Problem, VerifyReport, verify_chain
from storage.verify_report import CheckedBlock

from ..client.sync import opened
from ..client.text import one_line
from ..client.urls import Location
from .output import DAMAGED, json_option, print_json, token_option
from .watch import verifying

MAX_LINE = 1000


@click.command()
@click.argument("where", metavar="DIR|URL")
@click.option("--metadata-only", is_flag=True, help="Blocks and rules only: no files are read.")
@click.option("--no-rows", is_flag=True, help="Files by their bytes only, not by their rows.")
@click.option("--after", metavar="BLOCK", help="Look only at data behind this block.")
@click.option("--upto", metavar="BLOCK", help="Look only at data up to this block.")
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each data block.")
@token_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    where: str,
    metadata_only: bool,
    no_rows: bool,
    after: str | None,
    upto: str | None,
    verbose: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Check every block, rule, file and row of the dataset in DIR or at URL.

    Ends with exit code 6 when something is wrong; each problem names block, file and reason.
    Nothing is executed: `odf-worker verify` also repeats the transformations of a derivative.
    """
    interval = Interval(
        after=None if after is None else Multihash.parse(after),
        upto=None if upto is None else Multihash.parse(upto),
    )
    with (
        opened(Location.parse(where), token) as repository,
        verifying(quiet=as_json) as progress,
    ):
        report = verify_chain(
            repository,
            objects=not metadata_only,
            logical=not no_rows,
            interval=interval,
            progress=progress,
        )
    if as_json:
        print_json(report.to_data())
    else:
        click.echo(report_text(report, verbose=verbose))
    ctx.exit(0 if report.ok else DAMAGED)


def report_text(report: VerifyReport, *, verbose: bool = False) -> str:
    """One line per data block if asked for, one per problem, then the totals."""
    lines = [_block_line(block) for block in reversed(report.data_blocks)] if verbose else []
    lines += [_line(problem) for problem in report.problems]
    lines += ["note: " + _line(note) for note in report.notes]
    verdict = "valid" if report.ok else f"NOT VALID, {len(report.problems)} problem(s)"
    lines.append(
        f"{verdict}: {report.blocks} block(s), {report.objects} object(s), "
        f"{report.records} record(s), {report.size} bytes\nhead {report.head}"
    )
    return "\n".join(lines)


def _block_line(block: CheckedBlock) -> str:
    verdicts = " ".join(part for part in (block.objects, block.replay) if part) or "not looked at"
    return (
        f"#{block.sequence_number} {block.block} {block.event}: {verdicts}, "
        f"{block.records} record(s), {block.size} bytes"
    )


def _line(problem: Problem) -> str:
    number = "" if problem.sequence_number is None else f"#{problem.sequence_number} "
    parts = [part for part in (problem.block, problem.path) if part]
    kinds = (problem.kind,) if problem.kind == problem.reason else (problem.kind, problem.reason)
    return one_line(f"{', '.join(kinds)}: {number}{' '.join(parts)}: {problem.message}", MAX_LINE)
