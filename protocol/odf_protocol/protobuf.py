"""Protobuf encoding for small messages: reads and writes fields, without schemas.

Source: protocol buffers encoding, "Message structure".
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import BadInput

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Kinds of fields that are read; groups are not supported."""
_FIXED = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT = 10


class MalformedProtobuf(BadInput):
    """The bytes are not a protobuf message."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field, in order: an int for a varint, else its bytes.

    Raises:
        MalformedProtobuf: an unknown kind, or a field that does not end.
    """
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise MalformedProtobuf(f"a field of the unknown kind {kind}")
        if at + size > len(message):
            raise MalformedProtobuf("a field is longer than its message")
        yield number, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and its end position. Raises `MalformedProtobuf`."""
    value = 0
    for shift in range(_MAX_VARINT):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            return value, at
    raise MalformedProtobuf("a number has no end")


def bytes_field(number: int, content: bytes) -> bytes:
    """Return one field that contains bytes, text or a message."""
    return b"".join((_written(number << 3 | BYTES), _written(len(content)), content))


def varint_field(number: int, value: int) -> bytes:
    """Return one field that contains a 64-bit number; negative ones as two's complement."""
    return _written(number << 3 | VARINT) + _written(value & (1 << 64) - 1)


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
