"""The old form of a schema in blocks: the Arrow `Schema` table alone, out of its message."""

from __future__ import annotations

import struct

import pyarrow as pa


def bare_schema(schema: pa.Schema) -> bytes:
    """A FlatBuffer whose root is the `Schema` table of the schema's IPC message."""
    message = schema.serialize().to_pybytes()[8:]
    (root,) = struct.unpack_from("<I", message)
    (back,) = struct.unpack_from("<i", message, root)
    (slot,) = struct.unpack_from("<H", message, root - back + 8)
    (offset,) = struct.unpack_from("<I", message, root + slot)
    return struct.pack("<I", root + slot + offset) + message[4:]
