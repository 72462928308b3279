"""`odf-node schedule`: have a node refresh a dataset at given times."""

from __future__ import annotations

from typing import Any

import click

from ..shell.asking import (
    ask,
    say,
    say_each,
    say_removed,
)
from ..shell.output import json_option
from ..shell.tokens import token_option

FIELDS = (
    "cron",
    "everySeconds",
    "timeZone",
    "paused",
    "exhaustSources",
    "fetchUncacheable",
    "maxVanishPercent",
)
"""Fields of a schedule that a request to change it repeats."""


@click.group()
def schedule() -> None:
    """Manage the schedules of DATASET: polls, pulls of a mirror, transforms."""


@schedule.command("add")
@click.argument("url", metavar="DATASET")
@click.option("--cron", metavar="EXPR", help="Five fields, as `0 6 * * 1-5`; six with seconds.")
@click.option("--every", "every_s", type=int, metavar="SECONDS", help="Instead of --cron.")
@click.option("--time-zone", default="UTC", metavar="TZ", help="Of --cron; default: UTC.")
@click.option("--paused", is_flag=True, help="Do not begin yet.")
@click.option("--exhaust-sources", is_flag=True, help="Go on while the source has more to give.")
@click.option(
    "--max-vanish-percent",
    type=click.IntRange(0, 100),
    metavar="N",
    help="Rows of a snapshot that may vanish at once; default: as the node is set up.",
)
@token_option
@json_option
def add(
    url: str,
    *,
    cron: str | None,
    every_s: int | None,
    time_zone: str,
    paused: bool,
    exhaust_sources: bool,
    max_vanish_percent: int | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Have the dataset refreshed at these times."""
    if (cron is None) == (every_s is None):
        raise click.UsageError("pass either --cron or --every")
    body = {
        "cron": cron,
        "everySeconds": every_s,
        "timeZone": time_zone,
        "paused": paused,
        "exhaustSources": exhaust_sources,
        "maxVanishPercent": max_vanish_percent,
    }
    say(ask(url, token, "POST", "schedules", body), _line, as_json=as_json)


@schedule.command("list")
@click.argument("url", metavar="DATASET")
@token_option
@json_option
def listed(url: str, token: str | None, as_json: bool) -> None:
    """List the schedules, each with its next time."""
    found = ask(url, token, "GET", "schedules")
    say_each(found, "schedules", _line, as_json=as_json)


@schedule.command("pause")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def pause(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Stop a schedule until it is resumed."""
    say(_changed(url, name, token, paused=True), _line, as_json=as_json)


@schedule.command("resume")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def resume(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Resume a paused schedule. It does not catch up on missed times."""
    say(_changed(url, name, token, paused=False), _line, as_json=as_json)


@schedule.command("remove")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def remove(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Remove a schedule; refreshes that it has started continue."""
    ask(url, token, "DELETE", f"schedules/{name}")
    say_removed(name, as_json=as_json)


@schedule.command("runs")
@click.argument("url", metavar="DATASET")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="How many; default: 20.")
@token_option
@json_option
def runs(url: str, limit: int, token: str | None, as_json: bool) -> None:
    """List the refreshes of the dataset, newest first, started by a schedule or by hand."""
    found = ask(url, token, "GET", "runs", limit=str(limit))
    say_each(found, "runs", run_line, as_json=as_json)


def run_line(job: dict[str, Any]) -> str:
    """Return a job as one line: time, id, kind, status and outcome."""
    result, problem = job.get("result") or {}, job.get("problem") or {}
    summary = problem.get("detail") or result.get("outcome") or ""
    if result.get("warnings"):
        summary += f", {len(result['warnings'])} warning(s)"
    progress = job.get("progress") or {}
    if job.get("status") == "running" and progress:
        summary = " ".join(f"{name} {value}" for name, value in progress.items())
    if job.get("dryRun"):
        summary = f"dry run: {summary}" if summary else "dry run"
    columns = (job["submittedAt"], job["id"], f"{job['kind']:<9}", f"{job['status']:<9}", summary)
    return "  ".join(columns).rstrip()


def _changed(url: str, name: str, token: str | None, *, paused: bool) -> dict[str, Any]:
    known = ask(url, token, "GET", f"schedules/{name}")
    body = {field: known[field] for field in FIELDS} | {"paused": paused}
    return ask(url, token, "PUT", f"schedules/{name}", body)


def _line(each: dict[str, Any]) -> str:
    times = each["cron"] or f"every {each['everySeconds']} s"
    following = "paused" if each["paused"] else f"next {each['nextAt'] or 'never'}"
    return f"{each['id']}  {times}  {each['timeZone']}  {following}"
