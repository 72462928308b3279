"""Messages to and from engines as bytes: finished FlatBuffers without any manifest.

Requests have their own table as root; answers are a union and stand in a `…Root` table.
Newer peers align timestamps, older ones do not; both are read, the newer is written.
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
"""Root table and the wrapper around a union, by message."""


class MalformedMessage(BadInput):
    """Bytes that are no engine message of that name."""


def encode_message(name: MessageName, value: Table) -> bytes:
    """A message as a finished buffer. Raises `Unencodable`."""
    root, wrapper = _ROOTS[name]
    return encode_root(root, wrapper(value=value) if wrapper else value)


def decode_message(name: MessageName, raw: bytes) -> Any:
    """The value a message holds. Raises `MalformedMessage`."""
    root, wrapper = _ROOTS[name]
    try:
        value = decode_root(root, bytes(raw))
    except (MalformedBuffer, NotKnown) as problem:
        raise MalformedMessage(f"not a {name}: {problem}") from None
    return value.value if wrapper else value
