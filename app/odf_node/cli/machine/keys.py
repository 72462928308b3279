"""`odf-node keys`: the secret keys of datasets, on the machine of a node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odf_protocol.commitments import MAX_KEY_BYTES, private_pem, signing_key
from odf_protocol.errors import BadInput, NotFound
from odf_storage.datasets.node.naming import dataset_ref

from ..shell.files import INPUT
from ..shell.output import print_json
from .node_folder import node_stores, record_command, store_options

if TYPE_CHECKING:
    from odf_storage.stores.ports.values import DatasetEntry
    from odf_storage.stores.registers.accounts.sealing import SecretKeys

    from ...service.settings import Settings

_dataset = click.argument("dataset", metavar="DATASET")
_file = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def keys() -> None:
    """Export, import and forget the secret keys of datasets, on the machine of a node.

    The id of a dataset is the public half of its key, so whoever has the secret half can say whose
    the dataset is, and nobody else. The node that made a dataset keeps it, and says by it that it
    publishes the dataset.
    """


@keys.command("list")
@store_options
def list_(data: Path | None, database_url: str | None, as_json: bool) -> None:
    """List the datasets whose keys this node has."""
    with node_stores(data, database_url) as (stores, _):
        found = stores.registry.find_all(stores.dataset_keys.all())
    shown = [{"id": str(each.id), "alias": str(each.alias)} for each in found.values()]
    if as_json:
        print_json({"keys": shown})
        return
    for line in shown:
        click.echo(f"{line['alias']} {line['id']}")


@keys.command()
@_dataset
@_file
@store_options
def export(
    dataset: str, file: Path, data: Path | None, database_url: str | None, as_json: bool
) -> None:
    """Write the key of DATASET to the new FILE, as PEM that only you may read.

    Keep the file as you keep a password. The node has the key until `odf-node keys forget`.
    """
    from odf_storage.stores.registers.signed.dataset_keys import opened_key

    with node_stores(data, database_url) as (stores, settings):
        entry = stores.registry.get(dataset_ref(dataset))
        sealed = stores.dataset_keys.find(entry.id)
        if sealed is None:
            raise _no_key(entry)
        key = opened_key(_sealing(settings), entry.id, sealed)
        _write_new(file, private_pem(key))
        record_command(stores, "keys.export", dataset=str(entry.id))
    _say(entry, f"wrote the key of {entry.alias} to {file}", as_json=as_json)


@keys.command("import")
@_dataset
@click.argument("file", type=INPUT)
@store_options
def import_(
    dataset: str, file: Path, data: Path | None, database_url: str | None, as_json: bool
) -> None:
    """Keep the key of DATASET that FILE has: the node says by it that it publishes the dataset.

    So a dataset that moved to this node keeps its key.
    """
    from odf_storage.stores.registers.signed.dataset_keys import sealed_key

    with file.open("rb") as stream:
        key = signing_key(stream.read(MAX_KEY_BYTES))
    with node_stores(data, database_url) as (stores, settings):
        entry = stores.registry.get(dataset_ref(dataset))
        if key.dataset_id != entry.id:
            raise BadInput(
                "KeyOfAnotherDataset", f"{file} has the key of {key.dataset_id}, not of {entry.id}"
            )
        stores.dataset_keys.put(entry.id, sealed_key(_sealing(settings), key))
        record_command(stores, "keys.import", dataset=str(entry.id))
    _say(entry, f"this node has the key of {entry.alias}", as_json=as_json)


@keys.command()
@_dataset
@store_options
def forget(dataset: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Remove the key of DATASET from this node. Without a copy of it nobody speaks for it again."""
    with node_stores(data, database_url) as (stores, _):
        entry = stores.registry.get(dataset_ref(dataset))
        if not stores.dataset_keys.remove(entry.id):
            raise _no_key(entry)
        record_command(stores, "keys.forget", dataset=str(entry.id))
    _say(entry, f"forgot the key of {entry.alias}", as_json=as_json)


def _sealing(settings: Settings) -> SecretKeys:
    from odf_storage.stores.registers.accounts.sealing import open_keys

    return open_keys(settings.secrets_keys, settings.data)


def _no_key(entry: DatasetEntry) -> NotFound:
    return NotFound("NoDatasetKey", f"this node does not have the key of {entry.alias}")


def _write_new(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _say(entry: DatasetEntry, text: str, *, as_json: bool) -> None:
    print_json({"dataset": str(entry.id)}) if as_json else click.echo(text)
