"""`odf-node dataset create --dry-run`: try datasets on a sample of rows, and show the result."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from odf_protocol.codec.manifests import manifest
from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import DatasetSnapshot

from ...client.nodes.limits import in_columns, one_line, too_much
from ...client.nodes.node_api import NodeApi
from ...service.pages.frame.cells import cell_text, type_text
from ..shell.files import STDIN, opened_file

SAMPLE_BYTES = 1 << 20
"""Limit of the bytes of a sample that are sent; it is the default limit of nodes."""
LINES = (".csv", ".tsv", ".ndjson", ".ndgeojson")
"""Extensions of files that may be cut between lines."""
SYSTEM_COLUMNS = ("offset", "op", "system_time")


def try_all(
    api: NodeApi, snapshots: Sequence[DatasetSnapshot], sample: str | None, sample_of: str | None
) -> list[dict[str, Any]]:
    """Return the node's result for each dataset.

    Raises the node's refusals, with the name of the dataset at the beginning of the message.
    """
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
    """Return the results as text: the columns of each dataset, then some rows."""
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
    """Return the content of the file, or its first lines if it is long.

    Raises:
        TooMuch: the file is long, and cannot be cut between lines.
        click.UsageError: the sample is standard input.
    """
    if name == STDIN:
        raise click.UsageError("--sample takes a file: standard input has no name to tell its form")
    with opened_file(name) as stream:
        content = stream.read(SAMPLE_BYTES + 1)
    if len(content) <= SAMPLE_BYTES:
        return content
    end = content.rfind(b"\n", 0, SAMPLE_BYTES) + 1
    if not name.lower().endswith(LINES) or not end:
        raise too_much(f"the size of the sample {name}", SAMPLE_BYTES)
    click.echo(f"{name} is long: its first {end} bytes are tried", err=True)
    return content[:end]
