"""`odf-node lineage`: print the inputs of a dataset on a node, and the datasets that use it."""

from __future__ import annotations

import json
from typing import Any

import click

from ..client.http import open_http
from ..client.node_api import NodeApi
from ..client.text import one_line
from .ingest import dataset_base
from .neighbours import suggesting
from .output import json_option, print_json
from .tokens import token_option

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
