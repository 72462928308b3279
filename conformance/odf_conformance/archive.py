"""Batches of blocks: hand-written tar and gzip, and the JSON around them.

The module writes archives like the reference (GNU headers with type flag NUL; mode, owner and time
are zero), and reads them as leniently as the reference. It shares no code with the node.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from typing import Any

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
