"""Messages to and from engines as bytes: finished FlatBuffers without a manifest.

The root of a request is its table; a response is a union, wrapped in a `…Root` table. Newer peers
align timestamps and older ones do not. Both forms are read, and the newer one is written.
Source: ODF engine protocol.
"""

from __future__ import annotations

from typing import Any, Literal

from ..errors import BadInput
from ..metadata.table import Table
from .decode import MalformedBuffer, NotKnown, decode_root
from .encode import encode_root
from .models import RawQueryResponseRoot, TransformResponseRoot

MessageName = Literal[
    "RawQueryRequest", "RawQueryResponse", "TransformRequest", "TransformResponse"
]
_ROOTS: dict[str, tuple[str, type[Table] | None]] = {
    "RawQueryRequest": ("RawQueryRequest", None),
    "RawQueryResponse": ("RawQueryResponseRoot", RawQueryResponseRoot),
    "TransformRequest": ("TransformRequest", None),
    "TransformResponse": ("TransformResponseRoot", TransformResponseRoot),
}
"""By message: the root table, and the wrapper if the message is a union."""


class MalformedMessage(BadInput):
    """The bytes are not an engine message of that name."""


def encode_message(name: MessageName, value: Table) -> bytes:
    """Return a message as a finished buffer. Raises `Unencodable`."""
    root, wrapper = _ROOTS[name]
    return encode_root(root, wrapper(value=value) if wrapper else value)


def decode_message(name: MessageName, raw: bytes) -> Any:
    """Return the value in a message. Raises `MalformedMessage`."""
    root, wrapper = _ROOTS[name]
    try:
        value = decode_root(root, bytes(raw))
    except (MalformedBuffer, NotKnown) as problem:
        raise MalformedMessage(f"not a {name}: {problem}") from None
    return value.value if wrapper else value
