"""Contents of the pages of blocks: the history of a dataset, and one block."""

from __future__ import annotations

from itertools import islice
from typing import Any

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_storage.datasets.upkeep.walk import walk_back
from odf_storage.stores.ports import BlockIndex

from ...client.event_lines import event_detail, event_name
from ..http.hashes import parse_hash
from .differences import MAX_CHARS, changes, event_text, replaced_by
from .visit import Visit

BLOCKS = 100
"""Number of blocks on a page of the history."""
LOOKED_BACK = 1000
"""Number of older blocks that are searched for the event that a block replaces."""


def block_line(block: HashedBlock) -> dict[str, Any]:
    """Return a block as an entry of a list."""
    return {
        "number": block.sequence_number,
        "hash": str(block.hash),
        "at": str(block.block.system_time),
        "event": event_name(block.event),
        "detail": event_detail(block.event),
    }


def newest(visit: Visit, most: int) -> list[dict[str, Any]]:
    """Return the newest blocks, at most `most`."""
    return [
        block_line(one)
        for one in _blocks(visit).ancestors(visit.entry.id, visit.dataset.head(), limit=most)
    ]


def history(visit: Visit, asked: str) -> dict[str, Any]:
    """Return blocks from the named one backwards. Raises `UnreadableHash`, `BlockNotFound`."""
    start = visit.dataset.block(parse_hash(asked)).hash if asked else visit.dataset.head()
    found = _blocks(visit).ancestors(visit.entry.id, start, limit=BLOCKS)
    last = found[-1]
    return {
        "blocks": [block_line(one) for one in found],
        "older": str(last.prev) if last.prev else None,
        "is_first": start == visit.dataset.head(),
        "count": visit.state.num_blocks,
    }


def block(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the content of one block's page. Raises `UnreadableHash`, `BlockNotFound`."""
    found = visit.dataset.block(parse_hash(asked))
    ((_, raw),) = _blocks(visit).raw(visit.entry.id, found.hash, limit=1)
    text = event_text(found.event)
    return {
        "block": block_line(found),
        "previous": str(found.prev) if found.prev else None,
        "size": len(raw),
        "format": found.version,
        "event_text": text[:MAX_CHARS],
        "is_cut": len(text) > MAX_CHARS,
        "objects": _objects(found),
        **_changed(visit, found),
    }


def _objects(found: HashedBlock) -> list[dict[str, Any]]:
    """Return the slice and the checkpoint that a block adds."""
    event = found.event
    if not isinstance(event, AddData | ExecuteTransform):
        return []
    objects: list[dict[str, Any]] = []
    if event.new_data is not None:
        data = event.new_data
        objects.append(
            {
                "kind": "Slice",
                "path": f"data/{data.physical_hash}",
                "file": f"{data.physical_hash}.parquet",
                "hash": str(data.physical_hash),
                "size": data.size,
                "logical": str(data.logical_hash),
                "offsets": (data.offset_interval.start, data.offset_interval.end),
            }
        )
    if event.new_checkpoint is not None:
        kept = event.new_checkpoint
        objects.append(
            {
                "kind": "Checkpoint",
                "path": f"checkpoints/{kept.physical_hash}",
                "file": str(kept.physical_hash),
                "hash": str(kept.physical_hash),
                "size": kept.size,
                "logical": None,
                "offsets": None,
            }
        )
    return objects


def _changed(visit: Visit, found: HashedBlock) -> dict[str, Any]:
    """Return the earlier block whose event this block replaces, and the differences."""
    older: Any = ()
    if found.prev is not None:
        older = islice(walk_back(_blocks(visit), visit.entry.id, found.prev), LOOKED_BACK)
    old = replaced_by(found.event, older)
    if old is None:
        return {"replaced": None, "changes": None}
    return {"replaced": block_line(old), "changes": changes(old.event, found.event)}


def _blocks(visit: Visit) -> BlockIndex:
    return visit.views.stores.blocks
