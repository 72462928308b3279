"""`odf-node ingest`: post a file of records to a push source."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click

from protocol.instant import Instant

from ..client.files import FILE_TYPES, sized_chunks
from ..client.http import open_http
from ..client.node_api import NodeApi
from ..client.urls import Location, UnsupportedUrl
from .blocks import STDIN, opened_file
from .output import json_option, print_json, token_option


@click.command()
@click.argument("file", metavar="FILE")
@click.argument("url", metavar="URL")
@click.option("--source-name", metavar="N", help="Push source; needed when there are several.")
@click.option("--media-type", metavar="T", help="Format of FILE; default: by its extension.")
@click.option(
    "--event-time", metavar="T", help="Event time (RFC 3339) of rows that have none; default: now."
)
@token_option
@json_option
def ingest(
    file: str,
    url: str,
    source_name: str | None,
    media_type: str | None,
    event_time: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Post the records of FILE (`-` is standard input) to the dataset at URL.

    Prints the receipt: how many rows were read, added and known already, and the new block.
    """
    if event_time is not None:
        event_time = str(Instant.parse(event_time))
    media_type = media_type or media_type_of(file)
    with opened_file(file) as stream, open_http() as http:
        size, chunks = sized_chunks(stream)
        receipt = NodeApi(dataset_base(url), token, http=http).ingest(
            chunks,
            media_type=media_type,
            source_name=source_name,
            event_time=event_time,
            size=size,
        )
    if as_json:
        print_json(receipt)
    else:
        click.echo(receipt_text(receipt))


def media_type_of(file: str) -> str | None:
    """By extension; none for standard input: then the source's own format counts.

    Raises:
        click.UsageError: an extension that says nothing.
    """
    if file == STDIN:
        return None
    suffix = PurePath(file).suffix.lower()
    if suffix not in FILE_TYPES:
        known = " ".join(FILE_TYPES)
        raise click.UsageError(
            f"cannot tell the format of {file} (known: {known}); pass --media-type"
        )
    return FILE_TYPES[suffix]


def dataset_base(url: str) -> str:
    """The HTTP base of a dataset's URL, with or without `odf+`."""
    location = Location.parse(url)
    if not location.base:
        raise UnsupportedUrl(f"records are posted to http(s)://…, not to {url!r}", url=url)
    return location.base


def receipt_text(receipt: dict[str, Any]) -> str:
    """The receipt in two lines for a person."""
    if not receipt:
        return "done (this node gives no receipt)"
    counted = (("added", "rowsAdded"), ("already known", "rowsKnown"))
    changed = (("retracted", "rowsRetracted"), ("corrected", "rowsCorrected"))
    parts = [f"{receipt.get(key, 0)} {word}" for word, key in counted]
    parts += [f"{receipt[key]} {word}" for word, key in changed if receipt.get(key)]
    text = f"{receipt.get('outcome')}: {receipt.get('rowsRead', 0)} row(s) read, {', '.join(parts)}"
    if receipt.get("offsetStart") is not None:
        text += f", offsets {receipt['offsetStart']} to {receipt['offsetEnd']}"
    return f"{text}\nhead {receipt.get('head')}"
