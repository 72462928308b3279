"""`odf-node projection`: publish a dataset of a node as files that other programs read.

Options that define how a dataset is published.

Commands that run on a node's machine and commands that send requests to it share the options.

`odf-node projection set|show|refresh`: have a node publish a dataset, given by its URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from odf_storage.datasets.node.naming import dataset_ref

from ...client.nodes.http import open_http
from ...client.nodes.node_api import NodeApi
from ..shell.asking import dataset_base
from ..shell.output import json_option, print_json
from ..shell.tokens import token_option


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


@click.group()
def projection() -> None:
    """Publish datasets of a node as tables for other programs.

    If DATASET is a URL, the node publishes it, now and after every change. If DATASET is a name,
    this command publishes it once and has to run on the machine of the node.
    """


for _command in (set_, show, refresh):
    projection.add_command(_command)


def _options(command: Any) -> Any:
    for option in (
        json_option,
        click.option("--objects-url", help="The node's object store, if not the data folder."),
        click.option("--database-url", help="The node's database, if not in the data folder."),
        click.option("--data", type=click.Path(path_type=Path), help="The node's data folder."),
        click.option("--force", is_flag=True, help="Take over what somebody else wrote there."),
        click.option("--uuid", help="Name in the store; default: the id of the dataset."),
        click.option("--store", "url", metavar="STORE", help="file:///folder or s3://bucket/…"),
        click.argument("where", metavar="DATASET"),
    ):
        command = option(command)
    return command


@projection.command()
@definition_options
@_options
def kartothek(
    where: str,
    url: str | None,
    uuid: str | None,
    force: bool,
    as_json: bool,
    objects_url: str | None,
    database_url: str | None,
    data: Path | None,
    **asked: Any,
) -> None:
    """Publish a dataset as a Kartothek dataset, or bring a published one up to date."""
    from odf_storage.datasets.kartothek.publish import publish

    body = definition_body(store=url, uuid=uuid, **asked)
    place = {"objects_url": objects_url, "database_url": database_url, "data": data}
    with _publication(where, body, place) as (found, store, publication, records, made):
        said = publish(found, store, publication, records, force=force, kept=made)
    answer = {
        "uuid": publication.uuid,
        "publishedHead": said.head,
        "changed": said.changed,
        "partitions": said.partitions,
        "rows": said.rows,
        "indices": said.indices,
        "skipped": list(said.skipped),
        "unmatchedRetractions": said.unmatched_retractions,
    }
    if as_json:
        print_json(answer)
        return
    verb = "published" if said.changed else "up to date:"
    click.echo(f"{verb} {publication.uuid}: {said.rows} rows in {said.partitions} partitions")
    for name in said.skipped:
        click.echo(f"no index on {name}: it would be too large")


@projection.command()
@click.option("--leave-files", is_flag=True, help="With a URL: the node forgets the files.")
@token_option
@_options
def withdraw(
    where: str,
    url: str | None,
    uuid: str | None,
    force: bool,
    leave_files: bool,
    token: str | None,
    as_json: bool,
    **data: Any,
) -> None:
    """Remove a published dataset from its store. The dataset of the node stays as it is."""
    from odf_storage.datasets.kartothek.publish import withdraw as withdraw_published

    if _is_url(where):
        query = {"force": force, "leaveFiles": leave_files}
        wanted = "&".join(f"{key}=true" for key, is_asked in query.items() if is_asked)
        ask(where, token, "DELETE", f"?{wanted}" if wanted else "")
        name = where
    elif leave_files:
        raise click.UsageError("--leave-files is for publications of a node, by its URL")
    else:
        with _publication(where, {"store": url, "uuid": uuid}, data) as (
            _,
            store,
            publication,
            records,
            _,
        ):
            withdraw_published(store, publication, records, force=force)
        name = publication.uuid
    if as_json:
        print_json({"uuid": name, "withdrawn": True})
    else:
        click.echo(f"withdrawn {name}")


def _is_url(where: str) -> bool:
    return "://" in where


@contextmanager
def _publication(
    dataset: str, body: dict[str, Any], where: dict[str, Any]
) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """Open what a publication needs, and yield it.

    Yields: the dataset, the store, the publication, the record of the publication, and the node's
    store of files that it made from the dataset.

    Raises:
        click.UsageError: the command line names no store.
    """
    from odf_storage.datasets.kartothek.definition import read_definition
    from odf_storage.datasets.kartothek.own_index import made_of
    from odf_storage.datasets.kartothek.records import KeyedRecords, record_key
    from odf_storage.stores.keyed.folder import open_keyed_store

    from ..machine.node_folder import opened_stores

    url = body["store"]
    if url is None:
        raise click.UsageError("--store says where the dataset is published")
    with opened_stores(where) as (stores, _):
        found = stores.dataset(dataset_ref(dataset))
        publication = read_definition(body).publication(found)
        place = record_key(url, publication.uuid)
        made = made_of(stores.projections, found.id)
        yield found, open_keyed_store(url), publication, KeyedRecords(made, place), made
