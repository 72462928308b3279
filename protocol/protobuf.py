"""Protobuf on the wire, as far as small messages need it: fields in, fields out, no schemas.

Source: protocol buffers encoding, "Message structure".
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import BadInput

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Kinds of fields that are read; groups are none of them."""
_FIXED = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT = 10


class MalformedProtobuf(BadInput):
    """Bytes that are no protobuf message."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field, in order: an int of a varint, else its bytes.

    Raises:
        MalformedProtobuf: a kind that is unknown, or a field that does not end.
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
    """A number, and where it ends. Raises `MalformedProtobuf`."""
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
    """One field that holds bytes, text or a message."""
    return b"".join((_written(number << 3 | BYTES), _written(len(content)), content))


def varint_field(number: int, value: int) -> bytes:
    """One field that holds a number of 64 bits, negative ones as their complement."""
    return _written(number << 3 | VARINT) + _written(value & (1 << 64) - 1)


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
