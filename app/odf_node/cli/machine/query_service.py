"""`odf-query`: a process that answers only queries of a node, possibly on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...service.setting_groups.words import Tenancy
from ...service.settings import load_settings
from ..shell.groups import HELP, ReportsErrors
from .serve import run


@click.command(
    cls=ReportsErrors,
    context_settings=HELP,
    epilog="Example: odf-query --port 8081 --data /srv/queries --database-url "
    "postgresql://odf@db/odf --objects-url s3://bucket/prefix",
)
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks one.")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Folder for copies and spills."
)
@click.option(
    "--tenancy", type=click.Choice([t.value for t in Tenancy]), help="As the service has it."
)
@click.option("--database-url", help="PostgreSQL of the service.")
@click.option("--objects-url", help="Bucket of the service.")
def main(**given: Any) -> None:
    """Answer queries beside a service that uses the same database and bucket.

    Use the settings of the service; accounts, tokens and rights are shared with it. See
    settings.example.env.
    """
    run(load_settings(workers=0, **given), queries_alone=True)


if __name__ == "__main__":
    main(prog_name="odf-query")
