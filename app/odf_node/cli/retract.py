"""`odf-node retract`: take rows of a dataset back."""

from __future__ import annotations

import json
from typing import Any

import click

from ..client.limits import MOST_TAKEN_BACK
from ..client.text import one_line
from ..client.urls import Location
from .ingest import dataset_base, receipt_text
from .output import json_option, print_json
from .tokens import token_option

SHOWN_ROWS = 20


@click.command()
@click.argument("url", metavar="DATASET")
@click.option(
    "--key",
    "key",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Rows with this value; several: rows with all of them.",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    type=click.IntRange(0),
    metavar="N",
    help="Rows by offset.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="COLUMN:OP:VALUE",
    help="Rows of which this is true, as in `odf-node read`.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=MOST_TAKEN_BACK,
    show_default=True,
    metavar="N",
    help="Refuse if more rows fit.",
)
@click.option("--dry-run", is_flag=True, help="Show the rows and the receipt; commit nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@json_option
def retract(
    url: str,
    *,
    key: tuple[str, ...],
    offsets: tuple[int, ...],
    filters: tuple[str, ...],
    max_rows: int,
    dry_run: bool,
    yes: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Take current rows of DATASET back: show them, ask, then retract them.

    The rows stay in the history, with the retractions after them; readers get the current rows. No
    source of DATASET has to take retractions. A snapshot, or a row that is posted again, brings
    them back.
    """
    from ..public.place import Place
    from ..public.retracting import standing

    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: add --yes or --dry-run")
    pairs = [each.partition("=") for each in key]
    if not all(name and sign for name, sign, _ in pairs):
        raise click.UsageError("name a column and its value: --key COLUMN=VALUE")
    base = dataset_base(url)
    found = standing(
        Place(Location.parse(base), token),
        filters=[*filters, *(f"{name}:eq:{value}" for name, _, value in pairs)],
        offsets=offsets,
        most=max_rows,
    )
    rows = found.values.to_pylist()
    if not as_json:
        _show(rows)
    if not (yes or dry_run):
        count = "this row" if len(rows) == 1 else f"these {len(rows)} rows"
        click.confirm(f"Take back {count} of {one_line(base)}?", abort=True, err=True)
    receipt = found.take_back(dry_run=dry_run)
    if as_json:
        print_json({"rows": json.loads(json.dumps(rows, default=str)), "receipt": receipt})
    else:
        click.echo(receipt_text(receipt))


def _show(rows: list[dict[str, Any]]) -> None:
    for row in rows[:SHOWN_ROWS]:
        click.echo(json.dumps(row, ensure_ascii=False, default=str))
    if len(rows) > SHOWN_ROWS:
        click.echo(f"… and {len(rows) - SHOWN_ROWS} more")
