"""Read the head of a message of an Arrow stream, for facts that the Arrow library does not offer.

Source: Arrow "Message.fbs": the table `Message` has the kind of its header in slot 1 and the header
in slot 2; `DictionaryBatch` has its rows in slot 1; `RecordBatch` has `compression` in slot 3.
"""

from __future__ import annotations

import struct

_DICTIONARY, _RECORDS = 2, 3


def is_compressed(head: bytes) -> bool:
    """Whether the buffers that follow the head are compressed. Raises `ValueError` for a damaged
    head."""
    try:
        message = _u32(head, 0)
        kind_at, header_at = _slot(head, message, 1), _slot(head, message, 2)
        if kind_at is None or header_at is None:
            raise ValueError("a message without a header")
        kind, rows = head[kind_at], header_at + _u32(head, header_at)
        if kind == _DICTIONARY:
            if (inside := _slot(head, rows, 1)) is None:
                raise ValueError("a dictionary without rows")
            kind, rows = _RECORDS, inside + _u32(head, inside)
        return kind == _RECORDS and _slot(head, rows, 3) is not None
    except (struct.error, IndexError):
        raise ValueError("a message that is cut short") from None


def _slot(head: bytes, table: int, number: int) -> int | None:
    """Return the position of a table's field; None if it is absent."""
    vtable = table - int(struct.unpack_from("<i", head, table)[0])
    if vtable < 0:
        raise ValueError("a table without fields")
    (size,) = struct.unpack_from("<H", head, vtable)
    place = 4 + 2 * number
    if place + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", head, vtable + place)
    return table + offset if offset else None


def _u32(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", head, at)[0])
