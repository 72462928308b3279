"""Commands that read rows: of a dataset, by a key, and where they come from.

`odf-node read`: print rows of a dataset in a folder or at a URL, as of some time.

`odf-node lookup`: print rows of a dataset on a node whose columns have given values.

`odf-node lineage`: print the inputs of a dataset on a node, and the datasets that use it.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import click

from odf_protocol.errors import Damaged
from odf_storage.datasets.read.formats import IN_BYTES, Format
from odf_storage.stores.ports.errors import ObjectNotFound

from ...client.nodes.http import RemoteMissing, open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import Location
from ...client.transfer.sync import opened
from ...service.read.read import CHANGELOG, Reading, ReadRequest
from ..shell.asking import dataset_base
from ..shell.files import whole_file
from ..shell.neighbours import suggesting
from ..shell.output import json_option, print_json
from ..shell.tokens import token_option


@click.command()
@click.argument("where", metavar="DATASET")
@click.option(
    "--as-at", metavar="TIME|BLOCK", help="As it was known: at a system time, or with this block."
)
@click.option(
    "--as-of", metavar="TIME", help="As it was: events up to this event time, corrections folded."
)
@click.option(
    "--projection",
    type=click.Choice(["changelog", "state", "facts"]),
    help="Every row; the last row of each primary key; or rows that were not taken back (facts), "
    "which is the default.",
)
@click.option("--changelog", is_flag=True, help="Every row; the same as --projection changelog.")
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="COLUMN:OP:VALUE",
    help="Only rows of which this is true, as often as you like: eq, ne, lt, le, gt, ge, in (commas"
    " between), or COLUMN:null and COLUMN:notnull.",
)
@click.option(
    "--skip", type=click.IntRange(0), default=0, metavar="N", help="Leave out rows first."
)
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Most rows; default: all.")
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.CSV.value,
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Default: standard output.",
)
@token_option
@json_option
def read(
    where: str,
    as_at: str | None,
    as_of: str | None,
    projection: str | None,
    changelog: bool,
    columns: str | None,
    filters: tuple[str, ...],
    skip: int,
    limit: int | None,
    form: str,
    output: Path | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Print the current rows of DATASET; `--json` is `--format json`."""
    from odf_storage.datasets.read.view import view_of

    if changelog and projection not in (None, CHANGELOG):
        raise click.UsageError("give --changelog or --projection")
    request = ReadRequest(
        as_at=as_at,
        as_of=as_of,
        projection=CHANGELOG if changelog else projection,
        columns=columns,
        filters=filters,
        skip=skip,
        limit=limit,
        form=Format.JSON.value if as_json else form,
    )
    request.asked()  # report wrong usage before anything is fetched
    is_text = request.format() not in IN_BYTES
    if output is None and not is_text and sys.stdout.isatty():
        raise click.UsageError(f"{request.form} is no text; name a file with --output")
    with opened(Location.parse(where), token, whole=True) as repository:
        try:
            found = Reading(view_of(repository, request.block()), request)
            with nullcontext(sys.stdout.buffer) if output is None else whole_file(output) as file:
                _write(found, file)
        except (ObjectNotFound, RemoteMissing) as missing:
            asked = request.block()
            if asked is not None and str(asked) in missing.message:
                raise
            raise Damaged(
                "DatasetNotWhole", f"{where} is not whole: {missing.message}"
            ) from missing


def _write(found: Reading, out: IO[bytes]) -> None:
    for chunk in found:
        out.write(chunk)
    out.flush()


@click.command()
@click.argument("url", metavar="DATASET")
@click.argument("values", metavar="COLUMN=VALUE...", nargs=-1, required=True)
@click.option("--at", metavar="BLOCK", help="As of this block; default: the head.")
@click.option("--state", is_flag=True, help="Only rows that stand, not all there were.")
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Most rows.")
@token_option
@json_option
def lookup(
    url: str,
    values: tuple[str, ...],
    at: str | None,
    state: bool,
    limit: int,
    token: str | None,
    as_json: bool,
) -> None:
    """Print rows of DATASET whose columns have these values, one a line."""
    pairs = [each.partition("=") for each in values]
    if not all(name and sign for name, sign, _ in pairs):
        raise click.UsageError("name a column and its value: COLUMN=VALUE")
    with open_http() as http:
        found = NodeApi(dataset_base(url), token, http=http).lookup(
            [name for name, _, _ in pairs],
            [value for _, _, value in pairs],
            block=at,
            state=state,
            limit=limit,
        )
    if as_json:
        print_json(found)
        return
    for row in found["data"]:
        click.echo(json.dumps(row, ensure_ascii=False))


_STEPS = click.IntRange(0, 100)


@click.command()
@click.argument("url", metavar="DATASET")
@click.option("--upstream", type=_STEPS, default=10, show_default=True, help="Steps to inputs.")
@click.option("--downstream", type=_STEPS, default=10, show_default=True, help="Steps to users.")
@click.option("--columns", is_flag=True, help="Which columns each column is made of, too.")
@click.option("--openlineage", is_flag=True, help="Print OpenLineage events, one a line.")
@token_option
@json_option
def lineage(
    url: str,
    upstream: int,
    downstream: int,
    columns: bool,
    openlineage: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Print the inputs of DATASET, then the datasets that use it."""
    base = dataset_base(url)
    with open_http() as http, suggesting(base, token, http):
        found = NodeApi(base, token, http=http).lineage(
            upstream=upstream,
            downstream=downstream,
            columns=columns,
            form="openlineage" if openlineage else "graph",
        )
    if openlineage:
        for event in found["events"]:
            click.echo(json.dumps(event, ensure_ascii=False))
    elif as_json:
        print_json(found)
    else:
        click.echo(graph_text(found))


def graph_text(graph: dict[str, Any]) -> str:
    """Return two trees below the dataset as text: its inputs, then the datasets that use it."""
    names = {one["id"]: one_line(one["alias"] or one["id"]) for one in graph["datasets"]}
    inputs: dict[str, list[str]] = {}
    users: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        inputs.setdefault(edge["output"], []).append(edge["input"])
        users.setdefault(edge["input"], []).append(edge["output"])
    center = graph["dataset"]
    lines = [names[center]]
    for title, below in (("made of", inputs), ("used by", users)):
        if below.get(center):
            lines += [f"  {title}", *_branches(center, below, names, 2, {center})]
    lines += _column_lines(graph, names)
    if graph.get("isCut"):
        lines.append("(there is more)")
    return "\n".join(lines)


def _branches(
    one: str, below: dict[str, list[str]], names: dict[str, str], depth: int, seen: set[str]
) -> list[str]:
    lines = []
    for other in below.get(one, ()):
        again = other in seen
        lines.append("  " * depth + names.get(other, other) + (" …" if again else ""))
        if not again:
            seen.add(other)
            lines += _branches(other, below, names, depth + 1, seen)
    return lines


def _column_lines(graph: dict[str, Any], names: dict[str, str]) -> list[str]:
    lines = []
    for one in graph["datasets"]:
        for column, parts in (one.get("columns") or {}).items():
            origins = ", ".join(f"{names.get(p['dataset'])}.{p['column']}" for p in parts)
            lines.append(one_line(f"{names[one['id']]}.{column} ← {origins or 'nothing'}", 1000))
    return lines
