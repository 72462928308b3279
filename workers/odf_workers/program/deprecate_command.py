"""`odf-worker deprecate`: retire old versions of an engine for a derivative."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import NodeError
from odf_storage.datasets.node.naming import dataset_ref

from ..settings import WorkerSettings, load_settings
from .wiring import on_the_spot

DIFFERENT = 6


@click.command(
    "deprecate",
    short_help="Let this engine version stand for the older ones of a derivative.",
    epilog="\b\nExamples:\n  odf-worker deprecate kamu/weather-daily",
)
@click.argument("dataset", metavar="DATASET")
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def deprecate(*, dataset: str, as_json: bool, **given: Any) -> None:
    """Let this engine version stand for older ones in DATASET, a derivative of this node.

    Every execution is made again by the version at hand; if all rows come out the same, that is
    noted. Exit code 6: they do not, or something cannot be made again, and nothing is noted.
    """
    try:
        found = _deprecated(load_settings(given), dataset)
    except NodeError as error:
        raise click.ClickException(error.message) from None
    if as_json:
        click.echo(json.dumps(found.to_data(), indent=2))
    else:
        click.echo(f"{found.same} executions of older versions come out the same")
        for block in found.differing:
            click.echo(f"differs: {block}")
        for block in found.not_verifiable:
            click.echo(f"not verifiable here: {block}")
        for line in found.compatible:
            click.echo(f"noted as compatible: {line}")
    sys.exit(0 if found.ok else DIFFERENT)


def _deprecated(settings: WorkerSettings, name: str) -> Any:
    # Spark is imported late: `--help` and wrong names do not need it.
    from ..jobs.transform.deprecate import deprecate as make_again

    show = sys.stderr.isatty()
    with on_the_spot(settings) as (stores, context):
        return make_again(
            stores,
            stores.dataset(dataset_ref(name)),
            context(),
            progress=lambda n: (
                click.echo(f"\r{n} executions", nl=False, err=True) if show else None
            ),
        )
