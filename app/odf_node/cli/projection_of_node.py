"""`odf-node projection set|show|refresh`: have a node publish a dataset, given by its URL."""

from __future__ import annotations

from typing import Any

import click

from ..client.http import open_http
from ..client.node_api import NodeApi
from .ingest import dataset_base
from .output import json_option, print_json
from .projection_definition import definition_body, definition_options
from .tokens import token_option

PATH = "projections/kartothek"


@click.command("set")
@click.argument("url", metavar="DATASET")
@click.option("--store", metavar="STORE", help="Folder or bucket; default: the node serves it.")
@click.option("--uuid", help="Name in the store; default: the id of the dataset.")
@definition_options
@click.option("--min-interval", default="0s", help="Between two refreshes, such as 10m.")
@token_option
@json_option
def set_(url: str, min_interval: str, token: str | None, as_json: bool, **asked: Any) -> None:
    """Have the node publish DATASET, now and after every change."""
    body = {**definition_body(**asked), "minInterval": min_interval}
    _say(ask(url, token, "PUT", "", body), as_json=as_json)


@click.command()
@click.argument("url", metavar="DATASET")
@token_option
@json_option
def show(url: str, token: str | None, as_json: bool) -> None:
    """Show how the node publishes DATASET, and which block readers see."""
    _say(ask(url, token, "GET"), as_json=as_json)


@click.command()
@click.argument("url", metavar="DATASET")
@click.option("--force", is_flag=True, help="Take over what somebody else wrote there.")
@token_option
@json_option
def refresh(url: str, force: bool, token: str | None, as_json: bool) -> None:
    """Have the node update its publication of DATASET to the head."""
    with open_http() as http:
        api = NodeApi(dataset_base(url), token, http=http)
        said = api.act(f"{PATH}/refresh", force=force or None)
    if as_json:
        print_json(said)
    else:
        click.echo(f"{said['outcome']}: {said['rows']} rows in {said['partitions']} partitions")


def ask(url: str, token: str | None, method: str, more: str = "", body: Any = None) -> Any:
    """Send a request about the publication to the node at URL, and return the response."""
    with open_http() as http:
        return NodeApi(dataset_base(url), token, http=http).ask(method, PATH + more, body)


def _say(said: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    place = said["store"] or "the node"
    counted = f"{said['rows']} rows in {said['partitions']} partitions"
    click.echo(f"{said['status']} {said['uuid']} at {place}: {counted}")
    click.echo(f"shows block {said['publishedHead']}, head {said['head']}")
    for column, size in said["indices"].items():
        click.echo(f"index on {column}: {size['values']} values, {size['bytes']} bytes")
    if said["lastError"] is not None:
        click.echo(f"last error: {said['lastError']['message']}")
