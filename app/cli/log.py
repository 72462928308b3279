"""`odf-node log`: the chain of a dataset, newest block first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

import click

from protocol.metadata.block import HashedBlock, UnknownEvent
from protocol.metadata.events import (
    AddData,
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from protocol.metadata.table import Variant
from protocol.multihash import Multihash

from ..client.sync import opened
from ..client.text import one_line
from ..client.urls import Location
from ..client.walk import ChainReader
from .output import json_option, print_json, token_option

MAX_DETAIL_CHARS = 100


@click.command()
@click.argument("where", metavar="DIR|URL")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Show only so many of the newest blocks."
)
@token_option
@json_option
def log(where: str, limit: int | None, token: str | None, as_json: bool) -> None:
    """Show the blocks of a dataset, newest first: number, time, event, hash."""
    with opened(Location.parse(where), token) as repository:
        blocks = newest_first(ChainReader(repository), repository.head(), limit)
        if as_json:
            print_json([block_data(block) for block in blocks])
            return
        for block in blocks:
            click.echo(
                f"#{block.sequence_number:<5} {block.block.system_time}  {summary(block.event)}\n"
                f"       {block.hash}"
            )


def newest_first(chain: ChainReader, head: Multihash, limit: int | None) -> Iterator[HashedBlock]:
    """Blocks from the head backwards, each one checked against its hash."""
    block: HashedBlock | None = chain.block(head)
    shown = 0
    while block is not None and (limit is None or shown < limit):
        yield block
        shown += 1
        block = chain.before(block) if limit is None or shown < limit else None


def block_data(block: HashedBlock) -> dict[str, Any]:
    """One line of the log as JSON-compatible data."""
    return {
        "hash": str(block.hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.block.system_time),
        "prevBlockHash": str(block.prev) if block.prev else None,
        "event": event_name(block.event),
        "summary": summary(block.event),
    }


def event_name(event: MetadataEvent | UnknownEvent) -> str:
    if isinstance(event, UnknownEvent):
        return event.name or f"Unknown({event.discriminator})"
    return type(event).__name__


def summary(event: MetadataEvent | UnknownEvent) -> str:
    """The event in one line: its name and what tells it apart from others of its kind."""
    detail = one_line(
        event.detail if isinstance(event, UnknownEvent) else _detail(event), MAX_DETAIL_CHARS
    )
    return f"{event_name(event)}{': ' if detail else ''}{detail}"


def _detail(event: MetadataEvent) -> str:
    match event:
        case AddData() | ExecuteTransform():
            return _data(event)
        case Seed():
            return f"{event.dataset_kind.value} {event.dataset_id}"
        case SetTransform():
            return f"{len(event.inputs)} input(s)"
        case AddPushSource():
            return f"{event.source_name}, {_kind(event.read)}, {_kind(event.merge)}"
        case SetPollingSource():
            return f"{_kind(event.fetch)}, {_kind(event.read)}, {_kind(event.merge)}"
        case SetDataSchema():
            return f"{len(event.schema.fields)} column(s)" if event.schema else "raw Arrow schema"
        case SetInfo():
            return event.description or ""
        case SetLicense():
            return event.short_name
        case SetAttachments():
            return ", ".join(item.path for item in event.attachments.items)
        case DisablePushSource():
            return event.source_name
        case SetVocab() | DisablePollingSource():
            return ""
        case _:
            assert_never(event)


def _data(event: AddData | ExecuteTransform) -> str:
    parts = []
    if event.new_data is not None:
        interval = event.new_data.offset_interval
        rows = interval.end - interval.start + 1
        parts.append(f"{rows} row(s), offsets {interval.start} to {interval.end}")
    if event.new_watermark is not None:
        parts.append(f"watermark {event.new_watermark}")
    if event.new_checkpoint is not None:
        parts.append("checkpoint")
    return ", ".join(parts)


def _kind(step: Variant) -> str:
    """Variant name without the prefix of its union, as manifests write it."""
    return str(step.__struct_config__.tag)
