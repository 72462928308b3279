"""Commands that show a dataset: what it is, its blocks, and its history.

`odf-node describe`: set description, keywords, license and README of a dataset, and what its
columns are.

`odf-node compact`, `reset`, `set-watermark`: change the history of a dataset on a node.

`odf-node log`: print the chain of a dataset, newest block first.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec

from odf_protocol.codec.manifests import MAX_TEXT_BYTES, to_yaml
from odf_protocol.columns.column_names import DESCRIPTION_KEY, UNIT_KEY
from odf_protocol.instant import day_or_instant
from odf_protocol.multihash import Multihash

from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import Location
from ...client.transfer.receive import ChainReader
from ...client.transfer.sync import opened
from ...client.uses import history
from ...client.uses.describing import (
    KEPT,
    columns_event,
    info_event,
    license_event,
    readme_event,
)
from ...client.uses.event_texts import block_data, summary
from ...client.uses.spdx import license_doubt
from ..shell.asking import dataset_base, job_progress
from ..shell.files import read_file
from ..shell.neighbours import suggesting
from ..shell.output import json_option, print_json, stepwise
from ..shell.tokens import token_option


@click.command()
@click.argument("url", metavar="DATASET")
@click.option("--description", metavar="TEXT", help="One sentence about the dataset.")
@click.option(
    "--keyword", "keywords", multiple=True, metavar="WORD", help="May be repeated; replaces all."
)
@click.option("--license", "license_", metavar="ID", help="SPDX id, such as CC-BY-4.0.")
@click.option("--license-name", metavar="NAME", help="With --license; default: the id.")
@click.option("--license-url", metavar="URL", help="With --license; default: its page at SPDX.")
@click.option(
    "--readme", metavar="FILE", help="Text in Markdown for the page of the dataset; `-` is stdin."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=TEXT",
    help="What a column is; may be repeated. No TEXT removes it.",
)
@click.option(
    "--unit",
    "units",
    multiple=True,
    metavar="NAME=UNIT",
    help="The unit of a column, such as °C; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show the events, and append nothing.")
@token_option
@json_option
def describe(
    url: str,
    *,
    description: str | None,
    keywords: tuple[str, ...],
    license_: str | None,
    license_name: str | None,
    license_url: str | None,
    readme: str | None,
    columns: tuple[str, ...],
    units: tuple[str, ...],
    dry_run: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Set description, keywords, license and README of DATASET, and what its columns are. What you
    do not give stays.

    Each becomes an event of the chain, so earlier texts stay in the history.
    """
    if (license_name or license_url) and license_ is None:
        raise click.UsageError("--license-name and --license-url are for --license")
    said = _of_columns(columns, units)
    if not (description is not None or keywords or license_ or readme or said):
        raise click.UsageError(
            "give --description, --keyword, --license, --readme, --column or --unit"
        )
    text = None if readme is None else _text_of(readme)
    base = dataset_base(url)
    with open_http() as http, suggesting(base, token, http):
        api = NodeApi(base, token, http=http)
        known = api.ask("GET", "metadata", include=KEPT, schemaFormat="OdfJson").get("output", {})
        events: list[dict[str, Any]] = []
        if description is not None or keywords:
            words = keywords or None
            events.append(info_event(known, description=description, keywords=words))
        if license_ is not None:
            events.append(license_event(license_, license_name, license_url))
            if doubt := license_doubt(license_):
                click.echo(f"warning: {doubt}", err=True)
        if text is not None:
            events.append(readme_event(known, text))
        if said:
            events.append(columns_event(known, said))
        for event in events:  # all are checked before the first one is appended
            api.append(msgspec.json.encode(event), dry_run=True)
        done = [api.append(msgspec.json.encode(one)) for one in events if not dry_run]
    if as_json:
        print_json(
            {"events": events, "dryRun": dry_run, "head": done[-1]["head"] if done else None}
        )
    elif dry_run:
        click.echo("---\n".join(to_yaml(event) for event in events), nl=False)
    else:
        new = [e["kind"] for e, one in zip(events, done, strict=True) if one.get("changed", True)]
        outcome = f"appended {', '.join(new)}" if new else "nothing changed"
        click.echo(f"{outcome}; the head is {done[-1].get('head')}")


def _of_columns(columns: tuple[str, ...], units: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return texts by name of column and key. Raises `click.UsageError`: one names no column."""
    said: dict[str, dict[str, str]] = {}
    for key, pairs in ((DESCRIPTION_KEY, columns), (UNIT_KEY, units)):
        for pair in pairs:
            name, sign, text = pair.partition("=")
            if not name or not sign:
                raise click.UsageError(f"{pair[:50]!r} is no NAME=TEXT")
            said.setdefault(name, {})[key] = text.strip()
    return said


def _text_of(file: str) -> str:
    """Return the text of a file. Raises `click.UsageError`: it is no UTF-8."""
    try:
        return read_file(file, MAX_TEXT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{Path(file).name} is no text in UTF-8") from None


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
        return
    click.echo(receipt_text(receipt))
    for warning in receipt.get("warnings", ()):
        click.echo(f"warning: {one_line(str(warning), 1000)}", err=True)


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


@click.command()
@click.argument("where", metavar="DATASET")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Show only so many of the newest blocks."
)
@token_option
@json_option
def log(where: str, limit: int | None, token: str | None, as_json: bool) -> None:
    """Show the blocks of a dataset, newest first: number, time, event, hash."""
    with opened(Location.parse(where), token) as repository:
        blocks = islice(ChainReader(repository).back(repository.head()), limit)
        if as_json:
            print_json([block_data(block) for block in blocks])
            return
        for block in blocks:
            click.echo(
                f"#{block.sequence_number:<5} {block.block.system_time}  {summary(block.event)}\n"
                f"       {block.hash}"
            )
