"""`odf-node dataset`: create, list and show datasets of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from protocol.codec.manifests import MAX_TEXT_BYTES, load_snapshots, to_yaml

from ..client.http import open_http
from ..client.node_api import NodeApi
from ..client.text import one_line
from ..client.urls import node_base
from .blocks import read_file
from .ingest import dataset_base
from .output import json_option, print_json, token_option

F = TypeVar("F", bound=Callable[..., Any])


def _node_option(*, required: bool) -> Callable[[F], F]:
    return click.option("--node", metavar="URL", required=required, help="URL of the node.")


@click.group()
def dataset() -> None:
    """Datasets of a node."""


@dataset.command()
@click.argument("manifest", metavar="MANIFEST")
@_node_option(required=True)
@click.option(
    "--visibility",
    type=click.Choice(["private", "public"]),
    default="private",
    show_default=True,
    help="Who may read the dataset.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be created, and create nothing.")
@token_option
@json_option
def create(
    manifest: str, node: str, visibility: str, dry_run: bool, token: str | None, as_json: bool
) -> None:
    """Create the dataset a DatasetSnapshot MANIFEST describes (YAML or JSON; `-` is stdin).

    The query of a derivative is looked at by the node first.
    """
    text = read_file(manifest, MAX_TEXT_BYTES)
    if len(load_snapshots(text)) != 1:
        raise click.UsageError(f"{manifest} holds several datasets; create them one by one")
    with open_http() as http:
        created = NodeApi(node_base(node), token, http=http).create_dataset(
            text, visibility=visibility, dry_run=dry_run
        )
    if as_json:
        print_json(created)
    elif dry_run:
        click.echo(to_yaml(created), nl=False)
    else:
        click.echo(f"created {created.get('alias')} at {created.get('url')}\n{created.get('id')}")


@dataset.command("list")
@_node_option(required=True)
@click.option("--account", metavar="NAME", help="Only datasets of this account.")
@token_option
@json_option
def list_(node: str, account: str | None, token: str | None, as_json: bool) -> None:
    """List the datasets of a node that this account may see."""
    with open_http() as http:
        found = list(NodeApi(node_base(node), token, http=http).datasets(account=account))
    if as_json:
        print_json(found)
        return
    width = max((len(str(entry.get("alias"))) for entry in found), default=0)
    for entry in found:
        kind, visibility = str(entry.get("kind")), str(entry.get("visibility"))
        line = f"{kind:<10}  {visibility:<7}  {entry.get('alias')!s:<{width}}  {entry.get('id')}"
        click.echo(one_line(line) if not line.isprintable() else line)


@dataset.command()
@click.argument("url", metavar="URL|NAME")
@_node_option(required=False)
@token_option
@json_option
def show(url: str, node: str | None, token: str | None, as_json: bool) -> None:
    """Show a dataset as it stands: head, sizes, sources, schema.

    Names it by URL, or by --node and its name.
    """
    where = dataset_base(url if node is None else node_base(node) + url)
    with open_http() as http:
        shown = NodeApi(where, token, http=http).dataset()
    if as_json:
        print_json(shown)
    else:
        click.echo(to_yaml(shown), nl=False)


@dataset.command()
@click.argument("url", metavar="URL|NAME")
@_node_option(required=False)
@token_option
@json_option
def dependencies(url: str, node: str | None, token: str | None, as_json: bool) -> None:
    """Show what a dataset is computed from, and what is computed from it.

    Names it by URL, or by --node and its name.
    """
    where = dataset_base(url if node is None else node_base(node) + url)
    with open_http() as http:
        found = NodeApi(where, token, http=http).dependencies()
    if as_json:
        print_json(found)
        return
    for way, sign in (("upstream", "<-"), ("downstream", "->")):
        for item in found.get(way, ()):
            step = "  " * (int(item.get("depth", 1)) - 1)
            click.echo(one_line(f"{step}{sign} {item.get('alias')}  {item.get('id')}"))
