"""`odf-node merge-state`: check, rebuild and drop the merge states on the machine of a worker.

A merge state keeps the part of a dataset's history that merges need. It may be dropped at any
time; the next batch makes it again from the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetRef
from odf_storage.datasets.node.naming import dataset_ref

from ..shell.output import DAMAGED, json_option, print_json


@click.group("merge-state")
def merge_state() -> None:
    """Check, rebuild and drop the states that merges keep of histories, on a worker's machine."""


def _options(command: Any) -> Any:
    for option in (
        json_option,
        click.option("--objects-url", help="The node's object store, if not the data folder."),
        click.option("--database-url", help="The node's database, if not in the data folder."),
        click.option("--data", type=click.Path(path_type=Path), help="The worker's data folder."),
        click.argument("dataset", required=False),
    ):
        command = option(command)
    return command


def _found(stores: Any, data: Path, dataset: str | None) -> Iterator[tuple[Any, Any, Path]]:
    """Yield alias, dataset and folder of each state, of one dataset or of all."""
    from odf_storage.datasets.merge_state.store import MergeStates, states_folder
    from odf_storage.stores.objects.layout import parse_folder
    from odf_storage.stores.ports.errors import DatasetNotFound

    states = MergeStates(states_folder(data), max_bytes=0)
    wanted = None if dataset is None else stores.dataset(dataset_ref(dataset)).id
    for folder in states.folders(wanted):
        owner = parse_folder(folder.parent.name)
        if owner is not None:
            try:
                found = stores.dataset(DatasetRef(id=owner))
            except DatasetNotFound:
                continue  # gc removes it
            yield str(found.entry.alias), found, folder


@merge_state.command()
@click.option("--deep", is_flag=True, help="Compare with all slices, not only with checksums.")
@_options
def check(deep: bool, dataset: str | None, as_json: bool, **where: Any) -> None:
    """Read states completely and compare them with their chains.

    Ends with exit code 6 when a state is wrong. A worker that finds a wrong state makes it anew.
    """
    from odf_storage.datasets.merge_state.store import problem_of

    from .node_folder import opened_stores

    lines = []
    with opened_stores(where) as (stores, data):
        for alias, found, folder in _found(stores, data, dataset):
            problem = problem_of(folder, found, deep=deep)
            lines.append({"dataset": alias, "state": folder.name, "problem": problem})
    bad = [line for line in lines if line["problem"] is not None]
    if as_json:
        print_json({"checked": len(lines), "states": lines})
    else:
        for line in bad:
            click.echo(f"{line['dataset']}: {line['problem']}")
        click.echo(f"{len(lines)} state(s), {len(bad)} of them wrong")
    click.get_current_context().exit(DAMAGED if bad else 0)


@merge_state.command()
@_options
def rebuild(dataset: str | None, as_json: bool, **where: Any) -> None:
    """Make states anew from their chains, as of the head; drop states that cannot be made."""
    import shutil

    from odf_storage.datasets.merge_state.store import rebuild as rebuilt

    from .node_folder import opened_stores

    lines = []
    with opened_stores(where) as (stores, data):
        for alias, found, folder in _found(stores, data, dataset):
            try:
                manifest = rebuilt(folder, found)
            except NodeError as bad:
                shutil.rmtree(folder, ignore_errors=True)
                lines.append({"dataset": alias, "state": folder.name, "dropped": bad.message})
            else:
                facts = {"rows": manifest.rows_seen, "bytes": manifest.size}
                lines.append({"dataset": alias, "state": folder.name, **facts})
    if as_json:
        print_json({"states": lines})
        return
    for line in lines:
        what = line.get("dropped") or f"{line['rows']} row(s) of history, {line['bytes']} bytes"
        click.echo(f"{line['dataset']}: {what}")


@merge_state.command()
@_options
def drop(dataset: str | None, as_json: bool, **where: Any) -> None:
    """Remove the states of a dataset, or of all datasets."""
    import shutil

    from .node_folder import opened_stores

    count = 0
    with opened_stores(where) as (stores, data):
        for _, _, folder in _found(stores, data, dataset):
            shutil.rmtree(folder, ignore_errors=True)
            count += 1
    print_json({"dropped": count}) if as_json else click.echo(f"{count} state(s) dropped")
