"""Small requests about one dataset, and what commands say of their answers."""

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
    """A request below the dataset at `url`, JSON both ways."""
    with open_http() as http:
        return NodeApi(dataset_base(url), token, http=http).ask(method, path, body, **query)


def say(found: Found, line: Line, *, as_json: bool) -> None:
    """One thing: its document, or its line."""
    if as_json:
        print_json(found)
    else:
        click.echo(line(found))


def say_each(found: Found, name: str, line: Line, *, as_json: bool) -> None:
    """A list of things by the name of the list: its document, or a line for each."""
    if as_json:
        print_json(found)
        return
    for each in found.get(name, []):
        click.echo(line(each))


def say_removed(name: str, *, as_json: bool) -> None:
    """A person is told nothing."""
    if as_json:
        print_json({"removed": name})
