"""The engine protocol on the wire: names of its calls, and the one-field message around buffers.

Every message of the protocol is a protobuf message with a single field, `bytes flatbuffer = 1`,
which is little enough to be written and read by hand.
Source: ODF engine protocol, proto3 package `engine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from odf_node.protocol.codec.engine_messages import MalformedMessage, MessageName

SERVICE = "engine.Engine"
MESSAGE_BYTES = 64 << 20
"""Longest message that is sent or taken; a request names every slice it reads."""
WARNING_KEY = "odf-warning-bin"
"""Metadata after the last answer: what the author of a query should know, as UTF-8."""
ABOUT_SERVICE = "odf.node.EngineInfo"
ABOUT_METHOD = "Describe"
"""A call of ours, beside the protocol: name and version of the engine, as two lines of text."""

_TAG = 0x0A
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT = 10


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its name and the messages that go there and come back."""

    method: str
    request: MessageName
    response: MessageName

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.method}"


RAW_QUERY = Call("ExecuteRawQuery", "RawQueryRequest", "RawQueryResponse")
TRANSFORM = Call("ExecuteTransform", "TransformRequest", "TransformResponse")


def wrapped(buffer: bytes) -> bytes:
    """The message that holds a buffer."""
    length, size = bytearray(), len(buffer)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([_TAG]) + bytes(length) + buffer


def unwrapped(message: bytes) -> bytes:
    """The buffer a message holds; fields that we do not know are passed over.

    Raises:
        MalformedMessage: no such message, or one without a buffer.
    """
    buffer, at = None, 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise MalformedMessage(f"a field of the unknown kind {kind}")
        if at + size > len(message):
            raise MalformedMessage("a field is longer than its message")
        if tag == _TAG:
            buffer = message[at : at + size]
        at += size
    if buffer is None:
        raise MalformedMessage("the message holds no flatbuffer")
    return buffer


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            return value, at
    raise MalformedMessage("a number has no end")
