"""Small requests about one dataset, and the output of commands for their responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..client.http import open_http
from ..client.node_api import NodeApi
from .ingest import dataset_base
from .output import print_json

Found = dict[str, Any]
Line = Callable[[Found], str]


def ask(
    url: str, token: str | None, method: str, path: str, body: Any = None, **query: str
) -> Found:
    """Send a request to a path below the dataset at `url`. Body and response are JSON."""
    with open_http() as http:
        return NodeApi(dataset_base(url), token, http=http).ask(method, path, body, **query)


def say(found: Found, line: Line, *, as_json: bool) -> None:
    """Print one result, as a JSON document or as the line that `line` returns."""
    if as_json:
        print_json(found)
    else:
        click.echo(line(found))


def say_each(found: Found, name: str, line: Line, *, as_json: bool) -> None:
    """Print the result as a JSON document, or a line for each item of its list `name`."""
    if as_json:
        print_json(found)
        return
    for each in found.get(name, []):
        click.echo(line(each))


def say_removed(name: str, *, as_json: bool) -> None:
    """Print the name that was removed as JSON; print nothing otherwise."""
    if as_json:
        print_json({"removed": name})
