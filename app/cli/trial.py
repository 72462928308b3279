"""`odf-node dataset create --dry-run`: what would be in datasets, tried on a sample of rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from odf_node.protocol.codec.manifests import manifest
from odf_node.protocol.errors import NodeError
from odf_node.protocol.metadata.block import DatasetSnapshot

from ..client.limits import TooMuch
from ..client.node_api import NodeApi
from ..client.text import in_columns, one_line
from ..service.pages.cells import cell_text, type_text
from .blocks import STDIN, opened_file

SAMPLE_BYTES = 1 << 20
"""So much of a sample is sent, as nodes take it by default."""
LINES = (".csv", ".tsv", ".ndjson", ".ndgeojson")
"""Files that may be cut between lines."""
SYSTEM_COLUMNS = ("offset", "op", "system_time")


def try_all(
    api: NodeApi, snapshots: Sequence[DatasetSnapshot], sample: str | None, sample_of: str | None
) -> list[dict[str, Any]]:
    """What the node says of each dataset. Raises as the node refuses; names the dataset first."""
    documents = [json.dumps(manifest("DatasetSnapshot", one)) for one in snapshots]
    given = None
    if sample is not None:
        content = base64.b64encode(_beginning(sample)).decode()
        given = {"content": content, "fileName": Path(sample).name, "dataset": sample_of}
    try:
        return api.try_manifests("\n---\n".join(documents), given)
    except NodeError as refused:
        if (name := refused.facts.get("dataset")) is None:
            raise
        raise type(refused)(f"{name}: {refused.message}", **refused.facts) from refused


def trial_text(found: Sequence[dict[str, Any]]) -> str:
    """What would be, for people: columns, then some rows."""
    return "\n\n".join("\n".join(_dataset(one)) for one in found)


def _dataset(one: dict[str, Any]) -> list[str]:
    lines = [f"{one_line(str(one['alias']))} ({one['kind']}) would be created"]
    if one.get("schema") is None:
        return [*lines, f"its columns are not known yet: {one_line(str(one.get('reason')))}"]
    columns = one["schema"]["fields"]
    lines += [
        f"  {line}" for line in in_columns([[c["name"], type_text(c["type"])] for c in columns])
    ]
    if one.get("rowsRead") is not None:
        lines.append(f"{one['rowsRead']} row(s) read, {one.get('rowsMade') or 0} made")
    if rows := one.get("rows"):
        names = [c["name"] for c in columns if c["name"] not in SYSTEM_COLUMNS]
        cells = [[cell_text(row.get(name)) or "" for name in names] for row in rows]
        lines += [f"  {line}" for line in in_columns([names, *cells])]
    return [*lines, *(f"warning: {one_line(str(text), 1000)}" for text in one["warnings"])]


def _beginning(name: str) -> bytes:
    """The file, or its first lines if it is long. Raises `TooMuch`: it has none."""
    if name == STDIN:
        raise click.UsageError("--sample takes a file: standard input has no name to tell its form")
    with opened_file(name) as stream:
        content = stream.read(SAMPLE_BYTES + 1)
    if len(content) <= SAMPLE_BYTES:
        return content
    end = content.rfind(b"\n", 0, SAMPLE_BYTES) + 1
    if not name.lower().endswith(LINES) or not end:
        raise TooMuch(f"the size of the sample {name}", SAMPLE_BYTES)
    click.echo(f"{name} is long: its first {end} bytes are tried", err=True)
    return content[:end]
