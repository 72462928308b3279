"""Options that define how a dataset is published.

Commands that run on a node's machine and commands that send requests to it share the options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


def _columns(flag: str, name: str, about: str) -> Any:
    """Return an option for names of columns: with commas between them, or given several times."""
    return click.option(flag, name, multiple=True, metavar="A,B", help=f"{about} Repeatable.")


_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(["changelog", "state"]),
        default="changelog",
        show_default=True,
        help="All rows of the changelog, or those that stand.",
    ),
    _columns("--primary-key", "primary_key", "With --mode state; default: as merged."),
    _columns("--index", "indices", "Columns that readers look up."),
    _columns("--partition-on", "partition_on", "Columns whose values are folders."),
    click.option(
        "--state-format",
        type=click.Choice(["json", "msgpack"]),
        default="json",
        show_default=True,
        help="Of the state file; msgpack is smaller.",
    ),
    click.option("--grace", default="24h", show_default=True, help="Old files stay so long."),
)


def definition_options(command: Any) -> Any:
    """Add these options to the command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def definition_body(
    *,
    store: str | None,
    uuid: str | None,
    mode: str,
    primary_key: Sequence[str],
    indices: Sequence[str],
    partition_on: Sequence[str],
    state_format: str,
    grace: str,
) -> dict[str, Any]:
    """Return the definition as the API accepts it. An empty name as `primary_key` matches whole
    rows."""
    body: dict[str, Any] = {
        "store": store,
        "uuid": uuid,
        "mode": mode,
        "secondaryIndices": _names(indices),
        "partitionOn": _names(partition_on),
        "metadataFormat": state_format,
        "grace": grace,
    }
    if primary_key:
        body["primaryKey"] = _names(primary_key)
    return body


def _names(given: Sequence[str]) -> list[str]:
    return [name.strip() for text in given for name in text.split(",") if name.strip()]
