"""`odf-node repo`: names for nodes datasets are pulled from and pushed to."""

from __future__ import annotations

import click

from ..client.remotes import Repositories
from .output import json_option, print_json


@click.group()
def repo() -> None:
    """Repositories: short names for nodes.

    Kept, with their tokens, in a file only you can read. A token is sent to its own node only.
    """


@repo.command()
@click.argument("name")
@click.argument("url", metavar="URL")
@click.option("--token", help="Access token for this node.")
@json_option
def add(name: str, url: str, token: str | None, as_json: bool) -> None:
    """Call the node at URL (odf+http(s)://… or http(s)://…) NAME.

    Datasets are pulled by the smart protocol from odf+…, by the simple one otherwise.
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
    """Forget a repository and its token."""
    Repositories().remove(name)
    if as_json:
        print_json({"removed": name})
