"""`odf-node compact`, `reset`, `set-watermark`: change the history of a dataset on a node."""

from __future__ import annotations

from typing import Any

import click

from odf_protocol.instant import day_or_instant
from odf_protocol.multihash import Multihash

from ..client import history
from ..client.http import open_http
from ..client.node_api import NodeApi
from .ingest import dataset_base, job_progress
from .output import json_option, print_json
from .progress_bars import stepwise
from .tokens import token_option

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command()
@click.argument("url", metavar="DATASET")
@click.option("--max-slice-size", type=click.IntRange(1), metavar="BYTES", help="Default: 300 MB.")
@click.option(
    "--max-slice-records", type=click.IntRange(1), metavar="N", help="Default: 10 000 records."
)
@click.option(
    "--keep-metadata-only", is_flag=True, help="Drop all data, watermark and source state instead."
)
@_DRY_RUN
@_YES
@token_option
@json_option
def compact(
    url: str,
    max_slice_size: int | None,
    max_slice_records: int | None,
    keep_metadata_only: bool,
    dry_run: bool,
    yes: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Join small slices of the root DATASET into larger ones.

    The dataset gets a new history. Its copies elsewhere then diverge from it, and its derivatives
    have to be computed anew.
    """
    if not dry_run and not yes:
        what = "drop all data of" if keep_metadata_only else "rewrite the history of"
        click.confirm(f"This will {what} {url}. Go on?", abort=True, err=True)
    with open_http() as http, stepwise(quiet=as_json) as step:
        receipt = history.compact(
            NodeApi(dataset_base(url), token, http=http),
            max_slice_size=max_slice_size,
            max_slice_records=max_slice_records,
            keep_metadata_only=keep_metadata_only,
            dry_run=dry_run,
            seen=job_progress(step),
        )
    _show(receipt, as_json=as_json)


@click.command()
@click.argument("url", metavar="DATASET")
@click.argument("block", metavar="[BLOCK]", required=False)
@click.option("--old-head", metavar="BLOCK", help="Refuse if the head is another one.")
@_DRY_RUN
@_YES
@token_option
@json_option
def reset(
    url: str,
    block: str | None,
    old_head: str | None,
    dry_run: bool,
    yes: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Move the head of DATASET back to BLOCK, by default to its Seed.

    The dataset loses all later blocks and their data; garbage collection removes the files later.
    """
    for given in (block, old_head):
        if given is not None:
            Multihash.parse(given)
    if not dry_run and not yes:
        target = block or "its Seed, dropping everything else"
        click.confirm(f"This will reset {url} to {target}. Go on?", abort=True, err=True)
    with open_http() as http:
        api = NodeApi(dataset_base(url), token, http=http)
        receipt = history.reset(api, block=block, old_head=old_head, dry_run=dry_run)
    _show(receipt, as_json=as_json)


@click.command("set-watermark")
@click.argument("url", metavar="DATASET")
@click.argument("watermark", metavar="TIME")
@_DRY_RUN
@token_option
@json_option
def set_watermark(
    url: str, watermark: str, dry_run: bool, token: str | None, as_json: bool
) -> None:
    """Declare that the root DATASET gets no more events before TIME.

    TIME is a date, 2026-11-23 (its midnight in UTC), or a date-time, 2026-11-23T10:00:00Z.
    """
    when = str(day_or_instant(watermark))
    with open_http() as http:
        api = NodeApi(dataset_base(url), token, http=http)
        receipt = history.set_watermark(api, when, dry_run=dry_run)
    _show(receipt, as_json=as_json)


def _show(receipt: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(receipt)
    else:
        click.echo(receipt_text(receipt))


def receipt_text(receipt: dict[str, Any]) -> str:
    """Return the receipt as text for a person."""
    outcome = str(receipt.get("outcome"))
    if outcome != "updated":
        return f"{outcome}\nhead {receipt.get('head')}"
    done = "would become" if receipt.get("dryRun") else "became"
    lines = [
        f"blocks {merge['fromBlock']}–{merge['toBlock']} {done} one: {merge['slices']} slice(s), "
        f"offsets {merge['offsetStart']}–{merge['offsetEnd']}, {merge['size']} bytes"
        for merge in receipt.get("merges", ())
    ]
    lines.append(
        f"{receipt['blocksBefore']} block(s) {done} {receipt['blocksAfter']}, "
        f"{receipt['recordsBefore']} record(s) {done} {receipt['recordsAfter']}"
    )
    if receipt.get("watermark"):
        lines.append(f"watermark {receipt['watermark']}")
    lines.append(f"head {receipt['prevHead']}")
    if receipt.get("head"):
        lines.append(f"  → {receipt['head']}")
    return "\n".join(lines)
