"""`odf-node why`: print why a row of a dataset on a node is there, as a tree down to sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from odf_storage.datasets.job_payloads.why_job import COPIED

from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.remotes import Repositories
from ...client.proofs.provenance import why_everywhere
from ...service.pages.frame.cells import cell_text
from ..shell.asking import dataset_base, job_progress
from ..shell.neighbours import suggesting
from ..shell.output import json_option, print_json, stepwise
from ..shell.tokens import token_option

SHOWN_CHARS = 100
"""Number of characters of a value or a query that the tree shows."""


@click.command()
@click.argument("url", metavar="DATASET")
@click.argument("row", metavar="[OFFSET] [COLUMN]...", nargs=-1)
@click.option(
    "--key",
    multiple=True,
    metavar="VALUE",
    help="In place of OFFSET: the newest row with this primary key; once for each column of it.",
)
@click.option(
    "--depth", default="1", show_default=True, help="Steps from row to row, or all; 1: the row."
)
@click.option("--at", metavar="BLOCK", help="As of this block; default: the head.")
@click.option("--after", metavar="NEXT", help="Further rows: the `next` of an answer.")
@click.option("--here", is_flag=True, help="Ask this node alone, not those that it pulls from.")
@token_option
@json_option
def why(
    url: str,
    row: tuple[str, ...],
    key: tuple[str, ...],
    depth: str,
    at: str | None,
    after: str | None,
    here: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Print where the row of DATASET with this OFFSET comes from, and its COLUMNs."""
    offset, columns = _named(row, has_key=bool(key))
    base = dataset_base(url)
    stored = None if here else Repositories().token_at
    with (
        open_http() as http,
        suggesting(base, token, http),
        stepwise(quiet=as_json) as step,
    ):
        found = why_everywhere(
            base,
            token,
            stored,
            depth=depth,
            seen=job_progress(step),
            offset=offset,
            key=list(key) or None,
            column=list(columns) or None,
            at=at,
            after=after,
        )
    if as_json:
        print_json(found)
        return
    for line in why_lines(found["step"], columns):
        click.echo(line)


def _named(row: tuple[str, ...], *, has_key: bool) -> tuple[int | None, tuple[str, ...]]:
    """Return the offset, if the row is named by it, and the columns."""
    if has_key:
        return None, row
    if not row:
        raise click.UsageError("name the row by its OFFSET, or by --key")
    first, *columns = row
    return click.IntRange(0)(first, None, click.get_current_context()), tuple(columns)


def why_lines(
    step: dict[str, Any],
    columns: tuple[str, ...] = (),
    indent: str = "",
    told: set[str | None] | None = None,
) -> Iterator[str]:
    """Yield the lines of a tree: the row, how it came to be, its rows, and their trees. What is in
    `told` was printed before: the definitions of queries and sources."""
    told = set() if told is None else told
    row = step["row"]
    fate = "" if row["undoneBy"] is None else f", taken back by offset {row['undoneBy']}"
    if row["undoes"] is not None:
        fate = f", takes back offset {row['undoes']}"
    values = ", ".join(
        f"{name} = {_short(cell_text(value))}"
        for name, value in row["values"].items()
        if not columns or name in columns
    )
    head = f"{row['alias']} offset {row['offset']} ({row['operation']}{fate}): {values}"
    yield indent + one_line(head, 2000)
    for line in _facts(step, columns, told):
        yield f"{indent}  {line}"
    for each in step.get("inputs", ()):
        yield from why_lines(each, (), indent + "    ", told)


def _facts(step: dict[str, Any], columns: tuple[str, ...], told: set[str | None]) -> Iterator[str]:
    how = step["how"]
    if how.get("definition") not in told:
        told.add(how.get("definition"))
        yield from _how(how)
        for name, cell in step.get("where", {}).items():
            if cell.get("kind") != "source" and (not columns or name in columns):
                yield one_line(f"{name} ← {_origin(cell)}", 300)
    yield f"block {step['block']['sequenceNumber']} of {step['block']['systemTime']}"
    if step.get("toldBy"):
        yield one_line(f"told by {step['toldBy']}")
    for each in step.get("why", ()):
        ranges = ", ".join(_range(one) for one in each.get("rows", ()))
        name = one_line(each["alias"] or each["dataset"])
        unread = each.get("unread") or ranges or "no rows"
        more = f" … (--after {each['next']})" if each.get("next") else ""
        yield one_line(f"from {name}: {each.get('count', 0)} row(s): {unread}{more}", 2000)
    check = step["check"]
    reason = f": {one_line(check['reason'], 300)}" if check.get("reason") else ""
    if check["verdict"] != "recorded":
        yield f"{check['verdict']}{reason}"
    for note in step.get("notes", ()):
        yield one_line(note, 300)


def _how(how: dict[str, Any]) -> Iterator[str]:
    if how.get("kind"):
        url = f" {one_line(how['url'], 300)}" if how.get("url") else ""
        yield f"{how['kind']} source {one_line(how.get('source') or '')}{url}, {how['merge']}"
    if how.get("job"):
        yield f"job {how['job']}"
    if how.get("engine"):
        forms = ", ".join(how.get("forms", ())) or "not known"
        yield one_line(f"{how['engine']} {how.get('engineVersion', '')}: {forms}")
    for query in how.get("queries", ()):
        yield f"  {_short(one_line(query, 2000))}"


def _origin(cell: dict[str, Any]) -> str:
    """Return where a value is from: the columns, and what is done with them if not copied."""
    columns = ", ".join(cell.get("columns", ()))
    if cell["kind"] == COPIED:
        return columns
    did = (
        f"{cell['kind']}: {_short(cell['expression'])}" if cell.get("expression") else cell["kind"]
    )
    return f"{columns} ({did})" if columns else did


def _range(one: dict[str, Any]) -> str:
    offsets = str(one["start"]) if one["start"] == one["end"] else f"{one['start']}–{one['end']}"
    return offsets if one["role"] == "source" else f"{offsets} ({one['role']})"


def _short(text: str | None) -> str:
    text = "null" if text is None else text
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
