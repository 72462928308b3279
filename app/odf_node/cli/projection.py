"""`odf-node projection`: publish a dataset of a node as files that other programs read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from odf_storage.datasets.node.naming import dataset_ref

from .output import json_option, print_json
from .projection_definition import definition_body, definition_options
from .projection_of_node import ask, refresh, set_, show
from .tokens import token_option


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
    from odf_storage.stores.keyed.open import open_keyed_store

    from .upkeep import opened_stores

    url = body["store"]
    if url is None:
        raise click.UsageError("--store says where the dataset is published")
    with opened_stores(where) as (stores, _):
        found = stores.dataset(dataset_ref(dataset))
        publication = read_definition(body).publication(found)
        place = record_key(url, publication.uuid)
        made = made_of(stores.projections, found.id)
        yield found, open_keyed_store(url), publication, KeyedRecords(made, place), made
