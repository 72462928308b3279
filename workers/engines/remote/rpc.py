"""The engine protocol on the wire: names of its calls, and the one-field message around buffers.

Every message of the protocol is a protobuf message with a single field, `bytes flatbuffer = 1`,
which is little enough to be written and read by hand.
Source: ODF engine protocol, proto3 package `engine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from odf_node.protocol.codec.engine_messages import MalformedMessage, MessageName
from odf_node.protocol.protobuf import MalformedProtobuf, bytes_field, fields

SERVICE = "engine.Engine"
MESSAGE_BYTES = 64 << 20
"""Longest message that is sent or taken; a request names every slice it reads."""
WARNING_KEY = "odf-warning-bin"
"""Metadata after the last answer: what the author of a query should know, as UTF-8."""
ABOUT_SERVICE = "odf.node.EngineInfo"
ABOUT_METHOD = "Describe"
"""A call of ours, beside the protocol: name and version of the engine, as two lines of text."""

_BUFFER = 1
"""Number of the one field."""


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
    return bytes_field(_BUFFER, buffer)


def unwrapped(message: bytes) -> bytes:
    """The buffer a message holds; fields that we do not know are passed over.

    Raises:
        MalformedMessage: no such message, or one without a buffer.
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
