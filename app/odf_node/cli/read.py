"""`odf-node read`: print rows of a dataset in a folder or at a URL, as of some time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

import click

from odf_protocol.errors import Damaged
from odf_storage.datasets.read.formats import Format
from odf_storage.stores.ports.errors import ObjectNotFound

from ..client.http import RemoteMissing
from ..client.sync import opened
from ..client.urls import Location
from ..service.read.read import CHANGELOG, Reading, ReadRequest
from .output import json_option
from .tokens import token_option


class DatasetNotWhole(Damaged):
    """The chain names an object that its folder or node does not have."""


@click.command()
@click.argument("where", metavar="DATASET")
@click.option(
    "--as-at", metavar="TIME|BLOCK", help="As it was known: at a system time, or with this block."
)
@click.option(
    "--as-of", metavar="TIME", help="As it was: events up to this event time, corrections folded."
)
@click.option(
    "--projection",
    type=click.Choice(["changelog", "state", "facts"]),
    help="Every row; the last row of each primary key; or rows that were not taken back (facts), "
    "which is the default.",
)
@click.option("--changelog", is_flag=True, help="Every row; the same as --projection changelog.")
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="COLUMN:OP:VALUE",
    help="Only rows of which this is true, as often as you like: eq, ne, lt, le, gt, ge, in (commas"
    " between), or COLUMN:null and COLUMN:notnull.",
)
@click.option(
    "--skip", type=click.IntRange(0), default=0, metavar="N", help="Leave out rows first."
)
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Most rows; default: all.")
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.CSV.value,
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Default: standard output.",
)
@token_option
@json_option
def read(
    where: str,
    as_at: str | None,
    as_of: str | None,
    projection: str | None,
    changelog: bool,
    columns: str | None,
    filters: tuple[str, ...],
    skip: int,
    limit: int | None,
    form: str,
    output: Path | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Print the current rows of DATASET; `--json` is `--format json`."""
    from odf_storage.datasets.read.view import view_of

    if changelog and projection not in (None, CHANGELOG):
        raise click.UsageError("give --changelog or --projection")
    request = ReadRequest(
        as_at=as_at,
        as_of=as_of,
        projection=CHANGELOG if changelog else projection,
        columns=columns,
        filters=filters,
        skip=skip,
        limit=limit,
        form=Format.JSON.value if as_json else form,
    )
    request.asked()  # report wrong usage before anything is fetched
    is_text = request.format() not in (Format.PARQUET, Format.ARROW)
    if output is None and not is_text and sys.stdout.isatty():
        raise click.UsageError(f"{request.form} is no text; name a file with --output")
    with opened(Location.parse(where), token, whole=True) as repository:
        try:
            found = Reading(view_of(repository, request.block()), request)
            with nullcontext(sys.stdout.buffer) if output is None else whole_file(output) as file:
                _write(found, file)
        except (ObjectNotFound, RemoteMissing) as missing:
            asked = request.block()
            if asked is not None and str(asked) in missing.message:
                raise
            raise DatasetNotWhole(f"{where} is not whole: {missing.message}") from missing


@contextmanager
def whole_file(output: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, which appears under its name only when it is complete.

    A device or pipe is written directly.
    """
    if output.exists() and not output.is_file():
        with output.open("wb") as file:
            yield file
        return
    part = output.with_name(output.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _write(found: Reading, out: IO[bytes]) -> None:
    for chunk in found:
        out.write(chunk)
    out.flush()
