"""The gRPC layer of the engine protocol: the names of its calls, and its one-field messages.

Every message of the protocol is a protobuf message with a single field, `bytes flatbuffer = 1`.
That is simple enough to encode and decode without generated code.
Source: ODF engine protocol, proto3 package `engine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.codec.engine_messages import MalformedMessage, MessageName
from odf_protocol.protobuf import MalformedProtobuf, bytes_field, fields

SERVICE = "engine.Engine"
MESSAGE_BYTES = 64 << 20
"""Bytes of the longest message to send or accept; a request names every slice that it reads."""
WARNING_KEY = "odf-warning-bin"
"""Key of trailing metadata with a warning for the author of the query, as UTF-8."""
LATE_KEY = "odf-late-rows"
"""Key of trailing metadata with the number of rows that came too late."""
ABOUT_SERVICE = "odf.node.EngineInfo"
ABOUT_METHOD = "Describe"
"""A call that this project adds to the protocol. It returns the name and version of the engine, as
two lines of text."""

_BUFFER = 1
"""Number of the only field."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its name and its request and response messages."""

    method: str
    request: MessageName
    response: MessageName

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.method}"


RAW_QUERY = Call("ExecuteRawQuery", "RawQueryRequest", "RawQueryResponse")
TRANSFORM = Call("ExecuteTransform", "TransformRequest", "TransformResponse")


def wrapped(buffer: bytes) -> bytes:
    """Wrap a buffer in a message."""
    return bytes_field(_BUFFER, buffer)


def unwrapped(message: bytes) -> bytes:
    """Return the buffer in a message; unknown fields are ignored.

    Raises:
        MalformedMessage: the bytes are no protobuf message, or it has no buffer.
    """
    buffer = None
    try:
        for number, value in fields(message):
            if number == _BUFFER and isinstance(value, bytes):
                buffer = value
    except MalformedProtobuf as bad:
        raise MalformedMessage(bad.message) from None
    if buffer is None:
        raise MalformedMessage("the message holds no flatbuffer")
    return buffer
