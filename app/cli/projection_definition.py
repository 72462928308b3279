"""Options that define how a dataset is published.

Commands that run on a node's machine and commands that send requests to it share the options.
"""

from __future__ import annotations

from typing import Any

import click

_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(["changelog", "state"]),
        default="changelog",
        show_default=True,
        help="All rows of the changelog, or those that stand.",
    ),
    click.option("--primary-key", metavar="A,B", help="With --mode state; default: as merged."),
    click.option("--index", "indices", metavar="A,B", help="Columns that readers look up."),
    click.option("--partition-on", metavar="A,B", help="Columns whose values are folders."),
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
    primary_key: str | None,
    indices: str | None,
    partition_on: str | None,
    state_format: str,
    grace: str,
) -> dict[str, Any]:
    """Return the definition as the API accepts it. An empty `primary_key` matches whole rows."""
    body: dict[str, Any] = {
        "store": store,
        "uuid": uuid,
        "mode": mode,
        "secondaryIndices": _names(indices),
        "partitionOn": _names(partition_on),
        "metadataFormat": state_format,
        "grace": grace,
    }
    if primary_key is not None:
        body["primaryKey"] = _names(primary_key)
    return body


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
