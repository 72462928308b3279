"""Batches of blocks: hand-written tar and gzip, and the JSON around them.

The module writes archives like the reference (GNU headers with type flag NUL; mode, owner and time
are zero), and reads them as leniently as the reference. It shares no code with the node.

Local decisions of the reference client: what to send, and whether received blocks fit.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from typing import Any

from odf_protocol.errors import NodeError

from .chains import Block, Chain, hash_of
from .websocket import CloseReason, GaveUp

RECORD = 512
MEDIA_TYPE = "application/tar+gzip"
ENCODING = "raw"
GNU_MAGIC = b"ustar  \x00"
Entry = tuple[str, bytes]


class BadArchive(Exception):
    """The reference client could not unpack this batch."""


def pack(entries: Iterable[Entry]) -> bytes:
    """Pack pairs of name and content, in the given order, into one gzip member."""
    out = bytearray()
    for name, content in entries:
        out += header(name, len(content)) + content + b"\x00" * (-len(content) % RECORD)
    return gzip.compress(bytes(out) + b"\x00" * 2 * RECORD, mtime=0)


def header(name: str, size: int, flag: bytes = b"\x00") -> bytes:
    """Return one header record."""
    fields = [
        (name.encode(), 100),
        (b"", 8),
        (b"", 8),
        (b"", 8),
        (b"%011o\x00" % size, 12),
        (b"%011o\x00" % 0, 12),
        (b" " * 8, 8),
        (flag, 1),
        (b"", 100),
        (GNU_MAGIC, 8),
    ]
    record = b"".join(content.ljust(width, b"\x00") for content, width in fields)
    record = record.ljust(RECORD, b"\x00")
    total = b"%06o\x00 " % sum(record)
    return record[:148] + total + record[156:]


def unpack(archive: bytes) -> list[Entry]:
    """Return the entries in their order. Raise `BadArchive`."""
    try:
        content = gzip.decompress(archive)
    except (OSError, EOFError, ValueError) as broken:
        raise BadArchive(f"not one gzip member: {broken}") from None
    entries, at, renamed = list[Entry](), 0, None
    while at + RECORD <= len(content):
        record = content[at : at + RECORD]
        at += RECORD
        if not any(record):
            return entries
        try:
            name, size, flag = _read_header(record)
        except ValueError as broken:
            raise BadArchive(f"a header that is none: {broken}") from None
        body = content[at : at + size]
        if len(body) < size:
            raise BadArchive(f"entry {name!r} ends early")
        at += size + (-size % RECORD)
        if flag in (b"L", b"x"):
            renamed = _long_name(flag, body)
        elif flag in (b"\x00", b"0"):
            entries.append((renamed or name, body))
            renamed = None
        elif flag != b"g":
            raise BadArchive(f"entry {name!r} is no plain file")
    raise BadArchive("the archive has no end")


def _read_header(record: bytes) -> tuple[str, int, bytes]:
    written = record[148:156].strip(b" \x00")
    blank = record[:148] + b" " * 8 + record[156:]
    if not written or int(written, 8) != sum(blank):
        raise BadArchive("the checksum of a header is wrong")
    name = record[:100].rstrip(b"\x00").decode()
    if record[257:263] == b"ustar\x00" and any(record[345:500]):
        name = record[345:500].rstrip(b"\x00").decode() + "/" + name
    return name, int(record[124:136].strip(b" \x00") or b"0", 8), record[156:157]


def _long_name(flag: bytes, body: bytes) -> str | None:
    if flag == b"L":
        return body.rstrip(b"\x00").decode()
    for line in body.split(b"\n"):
        _, _, pair = line.partition(b" ")
        key, _, value = pair.partition(b"=")
        if key == b"path":
            return value.decode()
    return None


def batch(entries: Sequence[Entry], **changes: Any) -> dict[str, Any]:
    """Return the `MetadataBlocksBatch` of the entries. `changes` overwrite its fields."""
    return {
        "num_blocks": len(entries),
        "media_type": MEDIA_TYPE,
        "encoding": ENCODING,
        "payload": list(pack(entries)),
        **changes,
    }


def opened(blocks: dict[str, Any]) -> list[Entry]:
    """Return the entries of a batch that was received. Raise `BadArchive`."""
    for name, wanted in (("media_type", MEDIA_TYPE), ("encoding", ENCODING)):
        if blocks[name] != wanted:
            raise BadArchive(f"{name} is {blocks[name]!r}, not {wanted!r}")
    entries = unpack(bytes(blocks["payload"]))
    if len(entries) != blocks["num_blocks"]:
        raise BadArchive(f"{len(entries)} blocks where {blocks['num_blocks']} were announced")
    return entries


def to_push(chain: Chain, remote: str | None, *, force: bool) -> int:
    """Return the index of the first block the remote lacks. Raise `GaveUp` if histories differ."""
    if remote is None:
        return 0
    known = chain.position(remote)
    if known is not None:
        return known + 1
    if not force:
        raise GaveUp(CloseReason.INVALID_INTERVAL, "the remote head is not in this chain")
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
        raise GaveUp(CloseReason.INTERNAL, str(broken)) from None
    found = list[Block]()
    for name, raw in entries:
        if hash_of(raw) != name:
            raise GaveUp(CloseReason.CORRUPTED, f"block {name} has other content")
        block = decoded(raw)
        if found and (block.prev, block.number) != (found[-1].hash, found[-1].number + 1):
            raise GaveUp(CloseReason.INTERNAL, "the blocks are not in the order of the chain")
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
            raise GaveUp(CloseReason.OVERWRITE_SEED)
        return list(blocks)
    known = local.position(first.prev)
    if known is None or first.number != known + 1:
        raise GaveUp(CloseReason.INTERNAL, "the blocks do not continue this chain")
    return [*local.blocks[: known + 1], *blocks]


def decoded(raw: bytes) -> Block:
    """Decode a block. Raise `GaveUp` if the bytes are no block."""
    try:
        return Block.of(raw)
    except NodeError as broken:
        raise GaveUp(CloseReason.CORRUPTED, broken.message) from None
