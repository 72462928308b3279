"""`odf-worker verify`: verify a dataset of a node in this process, repeating its executions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload, to_json
from odf_storage.datasets.job_payloads.verify_text import answer_text
from odf_storage.datasets.node.naming import dataset_ref
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound

from ..settings import WorkerSettings, load_settings
from .wiring import on_the_spot

DAMAGED = 6


@click.command(
    "verify",
    short_help="Check a dataset of this node, its executions made again.",
    epilog="\b\nExamples:\n  odf-worker verify kamu/weather-daily --recursive",
)
@click.argument("dataset", metavar="DATASET")
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option("--recursive", is_flag=True, help="Verify the datasets it is made of, too.")
@click.option("--after", metavar="BLOCK", help="Look only at data behind this block.")
@click.option("--upto", metavar="BLOCK", help="Look only at data up to this block.")
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each data block.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify(
    *,
    dataset: str,
    recursive: bool,
    after: str | None,
    upto: str | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Check every block, rule, file and row of DATASET, an alias or id of this node.

    Executions of a derivative are made again. Exit code 6: something is wrong.
    """
    try:
        answer = _verified(
            load_settings(given), dataset, recursive=recursive, after=after, upto=upto
        )
    except NodeError as error:
        raise click.ClickException(error.message) from None
    if as_json:
        click.echo(json.dumps(to_json(answer), ensure_ascii=False, indent=2))
    else:
        click.echo(answer_text(answer, verbose=verbose))
    sys.exit(0 if answer.ok else DAMAGED)


def _verified(
    settings: WorkerSettings, name: str, *, recursive: bool, after: str | None, upto: str | None
) -> Any:
    # Spark is imported late: `--help` and wrong names do not need it.
    from ..jobs.verify.run import run_verification
    from .handlers import now

    with on_the_spot(settings) as (stores, context):
        found = stores.dataset(dataset_ref(name))
        inputs = inputs_of(stores, found.id) if recursive else []
        payload = VerifyPayload(inputs=tuple(map(str, inputs)), after=after, upto=upto)
        return run_verification(stores, found, payload, context(), now=now())


def inputs_of(stores: Stores, dataset: DatasetId) -> list[DatasetId]:
    """Return all datasets from which a dataset is derived, inputs before the datasets that use
    them."""
    found: dict[DatasetId, None] = {}
    seen = {dataset}

    def visit(one: DatasetId) -> None:
        try:
            declared = stores.dataset(DatasetRef(id=one)).state().declared_inputs or ()
        except DatasetNotFound:  # reported when the dataset is verified
            return
        for item in declared:
            if item is not None and item not in seen:
                seen.add(item)
                visit(item)
                found[item] = None

    visit(dataset)
    return list(found)
