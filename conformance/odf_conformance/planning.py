"""Local decisions of the reference client: what to send, and whether received blocks fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odf_protocol.errors import NodeError

from .archive import BadArchive, opened
from .chains import Block, Chain, hash_of
from .outcomes import GaveUp, Why


def to_push(chain: Chain, remote: str | None, *, force: bool) -> int:
    """Return the index of the first block the remote lacks. Raise `GaveUp` if histories differ."""
    if remote is None:
        return 0
    known = chain.position(remote)
    if known is not None:
        return known + 1
    if not force:
        raise GaveUp(Why.INVALID_INTERVAL, "the remote head is not in this chain")
    return 0


def push_request(
    blocks: Sequence[Block],
    remote: str | None,
    *,
    force: bool = False,
    visibility: str = "Private",
) -> dict[str, Any]:
    """Return the `DatasetPushRequest` for these blocks."""
    files = [file for block in blocks for file in block.files]
    return {
        "current_head": remote,
        "transfer_plan": {
            "num_blocks": len(blocks),
            "num_objects": len(files),
            "num_records": sum(block.records for block in blocks),
            "bytes_in_raw_blocks": sum(len(block.raw) for block in blocks),
            "bytes_in_raw_objects": sum(file["size"] for file in files),
        },
        "force_update_if_diverged": force,
        "visibility_for_created_dataset": visibility,
    }


def unpacked(blocks: dict[str, Any]) -> list[Block]:
    """Return the blocks of a batch.

    Raise `GaveUp` unless each block has the hash in its name and continues the block before it.
    """
    try:
        entries = opened(blocks)
    except BadArchive as broken:
        raise GaveUp(Why.INTERNAL, str(broken)) from None
    found = list[Block]()
    for name, raw in entries:
        if hash_of(raw) != name:
            raise GaveUp(Why.CORRUPTED, f"block {name} has other content")
        block = decoded(raw)
        if found and (block.prev, block.number) != (found[-1].hash, found[-1].number + 1):
            raise GaveUp(Why.INTERNAL, "the blocks are not in the order of the chain")
        found.append(block)
    return found


def joined(local: Chain, blocks: Sequence[Block]) -> list[Block]:
    """Return the local chain with the blocks appended.

    Raise `GaveUp` if they have another Seed, or do not continue the chain.
    """
    first = blocks[0]
    if first.prev is None:
        theirs = Chain(list(blocks)).seed
        if local.blocks and theirs != local.seed:
            raise GaveUp(Why.OVERWRITE_SEED)
        return list(blocks)
    known = local.position(first.prev)
    if known is None or first.number != known + 1:
        raise GaveUp(Why.INTERNAL, "the blocks do not continue this chain")
    return [*local.blocks[: known + 1], *blocks]


def decoded(raw: bytes) -> Block:
    """Decode a block. Raise `GaveUp` if the bytes are no block."""
    try:
        return Block.of(raw)
    except NodeError as broken:
        raise GaveUp(Why.CORRUPTED, broken.message) from None
