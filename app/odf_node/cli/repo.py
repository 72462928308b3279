"""`odf-node repo`: short names for nodes that exchange datasets with this machine."""

from __future__ import annotations

import click

from ..client.remotes import Repositories
from .output import json_option, print_json


@click.group()
def repo() -> None:
    """Name nodes as repositories.

    The names and their tokens are stored in a file that only you can read. A token is sent only to
    the node that it belongs to.
    """


@repo.command()
@click.argument("name")
@click.argument("url", metavar="URL")
@click.option("--token", help="Access token for this node.")
@json_option
def add(name: str, url: str, token: str | None, as_json: bool) -> None:
    """Add the repository NAME for the node at URL (odf+http(s)://… or http(s)://…).

    Pulls from odf+… use the smart protocol, pulls from other URLs the simple one.
    """
    repository = Repositories().add(name, url, token)
    if as_json:
        print_json({"name": name, "url": repository.url, "hasToken": repository.token is not None})
    else:
        click.echo(f"{name}: {repository.url}")


@repo.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the repositories."""
    known = Repositories().all()
    if as_json:
        print_json(
            [
                {"name": name, "url": one.url, "hasToken": one.token is not None}
                for name, one in known.items()
            ]
        )
        return
    for name, one in known.items():
        click.echo(f"{name}\t{one.url}{'  (token)' if one.token else ''}")


@repo.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a repository and its token."""
    Repositories().remove(name)
    if as_json:
        print_json({"removed": name})
