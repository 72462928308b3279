"""`odf-node verify`: is a dataset what it claims to be?"""

from __future__ import annotations

from typing import Any

import click

from storage.verify import Problem, VerifyReport, verify_chain

from ..client.sync import opened
from ..client.text import one_line
from ..client.urls import Location
from .output import DAMAGED, json_option, print_json, token_option
from .watch import verifying

MAX_LINE = 1000


@click.command()
@click.argument("where", metavar="DIR|URL")
@token_option
@json_option
@click.pass_context
def verify(ctx: click.Context, where: str, token: str | None, as_json: bool) -> None:
    """Check every block, rule, file and row of the dataset in DIR or at URL.

    Ends with exit code 6 when something is wrong; each problem names block, file and reason.
    """
    with (
        opened(Location.parse(where), token) as repository,
        verifying(quiet=as_json) as progress,
    ):
        report = verify_chain(repository, progress=progress)
    if as_json:
        print_json(report_data(report))
    else:
        click.echo(report_text(report))
    ctx.exit(0 if report.ok else DAMAGED)


def report_data(report: VerifyReport) -> dict[str, Any]:
    """The report as JSON-compatible data, in the spelling of the rest of the output."""
    return {
        "ok": report.ok,
        "head": report.head,
        "blocks": report.blocks,
        "objects": report.objects,
        "size": report.size,
        "records": report.records,
        "problems": [_problem_data(problem) for problem in report.problems],
        "notes": [_problem_data(note) for note in report.notes],
    }


def report_text(report: VerifyReport) -> str:
    """One line per problem, then the totals."""
    lines = [_line(problem) for problem in report.problems]
    lines += ["note: " + _line(note) for note in report.notes]
    verdict = "valid" if report.ok else f"NOT VALID, {len(report.problems)} problem(s)"
    lines.append(
        f"{verdict}: {report.blocks} block(s), {report.objects} object(s), "
        f"{report.records} record(s), {report.size} bytes\nhead {report.head}"
    )
    return "\n".join(lines)


def _line(problem: Problem) -> str:
    number = "" if problem.sequence_number is None else f"#{problem.sequence_number} "
    parts = [part for part in (problem.block, problem.path) if part]
    return one_line(f"{problem.reason}: {number}{' '.join(parts)}: {problem.message}", MAX_LINE)


def _problem_data(problem: Problem) -> dict[str, Any]:
    return {
        "reason": problem.reason,
        "message": problem.message,
        "block": problem.block,
        "sequenceNumber": problem.sequence_number,
        "path": problem.path,
    }
