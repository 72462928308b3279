"""What commands, pages and news say of an event of a chain, its kind and its main detail, and of a
chain as of a block."""

from __future__ import annotations

from typing import Any, assert_never

from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    UnknownEvent,
)
from odf_protocol.metadata.schema import Variant

from ..nodes.limits import one_line

MAX_DETAIL_CHARS = 100


def block_data(block: HashedBlock) -> dict[str, Any]:
    """Return a block as JSON-compatible data: number, time, event in a line, hashes."""
    return {
        "hash": str(block.hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.block.system_time),
        "prevBlockHash": str(block.prev) if block.prev else None,
        "event": event_name(block.event),
        "summary": summary(block.event),
    }


def chain_data(state: ChainState) -> dict[str, Any]:
    """Return what a chain says of its dataset, as JSON-compatible data."""
    schema = state.data_schema
    return {
        "head": str(state.head),
        "blocks": state.num_blocks,
        "records": state.num_records,
        "dataSize": state.data_size,
        "checkpointsSize": state.checkpoints_size,
        "linkedObjects": state.linked_objects,
        "linkedObjectsSize": state.linked_size,
        "lastOffset": state.last_offset,
        "watermark": None if state.watermark is None else str(state.watermark),
        "updatedAt": str(state.system_time),
        "description": state.info.description if state.info else None,
        "keywords": list(state.info.keywords or ()) if state.info else [],
        "license": _without_kind(to_data(state.license)) if state.license else None,
        "pushSources": sorted(state.push_sources),
        "pollingSource": state.polling_source is not None,
        "schema": None if schema is None else to_data(schema),
    }


def _without_kind(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "kind"}


def event_name(event: MetadataEvent | UnknownEvent) -> str:
    """Return the kind of an event, also of one that this version does not know."""
    if isinstance(event, UnknownEvent):
        return event.name or f"Unknown({event.discriminator})"
    return type(event).__name__


def summary(event: MetadataEvent | UnknownEvent) -> str:
    """Return the name of an event and its main detail."""
    detail = event_detail(event)
    return f"{event_name(event)}{': ' if detail else ''}{detail}"


def event_detail(event: MetadataEvent | UnknownEvent) -> str:
    """Return the main detail, which distinguishes an event from others of its kind."""
    return one_line(
        event.detail if isinstance(event, UnknownEvent) else _detail(event), MAX_DETAIL_CHARS
    )


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
        rows = interval.count
        parts.append(f"{rows} row(s), offsets {interval.start} to {interval.end}")
    if event.new_watermark is not None:
        parts.append(f"watermark {event.new_watermark}")
    if event.new_checkpoint is not None:
        parts.append("checkpoint")
    return ", ".join(parts)


def _kind(step: Variant) -> str:
    """Return the variant name without the prefix of its union, as in manifests."""
    return str(step.__struct_config__.tag)
