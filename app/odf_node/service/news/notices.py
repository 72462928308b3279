"""The texts of event streams: one notice is one frame of server-sent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import DatasetEntry

from ...client.uses.event_texts import event_name

BLOCK, RESET, POSITION = "block", "reset", "position"
KEEP_ALIVE = b": keep\n"
"""A comment. No empty line follows, because some clients take that for the end of an event."""


@dataclass(frozen=True, slots=True)
class NewsNotice:
    """One event, the same for all listeners. `content` is JSON without its last brace."""

    event: str
    id: str
    dataset: DatasetId | None
    content: bytes
    data: DataSlice | None = None
    """The rows that the block adds."""

    def frame(self, rows: bytes | None = None) -> bytes:
        """Return the frame of the event. `rows` is a JSON array in one line."""
        more = b"" if rows is None else b',"rows":' + rows
        named = f"id: {self.id}\nevent: {self.event}\ndata: ".encode()
        return named + self.content + more + b"}\n\n"


def block_content(entry: DatasetEntry, alias: str, block: HashedBlock) -> dict[str, Any]:
    """Return the content of a block event: the block, its dataset, and what it adds."""
    told: dict[str, Any] = {
        **_of(entry, alias, block.hash),
        "sequenceNumber": block.sequence_number,
        "previous": block.prev,
        "systemTime": str(block.block.system_time),
        "event": event_name(block.event),
    }
    data = data_of(block)
    if data is not None:
        interval = data.offset_interval
        told["offsets"] = {"start": interval.start, "end": interval.end}
        told["bytes"] = data.size
    watermark = getattr(block.event, "new_watermark", None)
    if watermark is not None:
        told["watermark"] = str(watermark)
    return told


def block_notice(entry: DatasetEntry, alias: str, block: HashedBlock, name: str) -> NewsNotice:
    """Return the notice of a block; `name` is the id of the notice."""
    content = block_content(entry, alias, block)
    return NewsNotice(BLOCK, name, entry.id, _open(content), data_of(block))


def reset_notice(entry: DatasetEntry, alias: str, head: Multihash, name: str) -> NewsNotice:
    """Return the notice that the history was rewritten, so earlier notices may be obsolete."""
    return NewsNotice(RESET, name, entry.id, _open(_of(entry, alias, head)))


def head_notice(entry: DatasetEntry, alias: str, head: Multihash) -> NewsNotice:
    """Return the notice of a stream's start position, from which a client can reconnect."""
    return NewsNotice(POSITION, str(head), entry.id, _open(_of(entry, alias, head)))


def log_notice(name: str) -> NewsNotice:
    """Return the notice of the start position in the log of the node; `name` is its id."""
    return NewsNotice(POSITION, name, None, _open({}))


def data_of(block: HashedBlock) -> DataSlice | None:
    event = block.event
    return event.new_data if isinstance(event, AddData | ExecuteTransform) else None


def _of(entry: DatasetEntry, alias: str, block: Multihash) -> dict[str, Any]:
    return {"dataset": str(entry.id), "alias": alias, "block": str(block)}


def _open(content: dict[str, Any]) -> bytes:
    return msgspec.json.encode(content, enc_hook=str)[:-1]
