"""Writes Avro files: returns the bytes of a container for a schema and rows.

The same rows give the same bytes, because the sync marker is a hash of the header.
Source: Avro specification 1.11, "Binary encoding", "Object container files".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Schema = Any
"""A schema as JSON: the name of a type, a record, an array, or `["null", type]`."""
Encoder = Callable[[bytearray, Any], None]

_MAGIC = b"Obj\x01"
_MARK_BYTES = 16
ROWS_IN_BLOCK = 1_000


def container(schema: Schema, rows: Iterable[Any], told: Mapping[str, str]) -> bytes:
    """Return an uncompressed file of the rows, with `told` as further entries of its header."""
    header = {"avro.schema": json.dumps(schema, separators=(",", ":")), "avro.codec": "null"}
    pairs = {**header, **told}
    out = bytearray(_MAGIC)
    _long(out, len(pairs))
    for key, value in pairs.items():
        _text(out, key)
        _text(out, value)
    _long(out, 0)
    mark = hashlib.sha256(out).digest()[:_MARK_BYTES]
    out += mark
    encode, block, count = encoder(schema), bytearray(), 0
    for row in rows:
        encode(block, row)
        count += 1
        if count == ROWS_IN_BLOCK:
            _block(out, block, count, mark)
            block, count = bytearray(), 0
    if count:
        _block(out, block, count, mark)
    return bytes(out)


def encoder(schema: Schema) -> Encoder:
    """Return a function that writes values of the schema; records are mappings with all fields."""
    if isinstance(schema, list):
        return _optional(encoder(schema[1]))
    if isinstance(schema, str):
        return _PLAIN[schema]
    if schema["type"] == "array":
        return _array(encoder(schema["items"]))
    return _record([(each["name"], encoder(each["type"])) for each in schema["fields"]])


def _long(out: bytearray, value: int) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _bytes(out: bytearray, value: bytes) -> None:
    _long(out, len(value))
    out += value


def _text(out: bytearray, value: str) -> None:
    _bytes(out, value.encode())


_PLAIN: dict[str, Encoder] = {"int": _long, "long": _long, "bytes": _bytes, "string": _text}


def _optional(inner: Encoder) -> Encoder:
    def encode(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            inner(out, value)

    return encode


def _array(inner: Encoder) -> Encoder:
    def encode(out: bytearray, value: Any) -> None:
        if value:
            _long(out, len(value))
            for each in value:
                inner(out, each)
        out.append(0)

    return encode


def _record(fields: list[tuple[str, Encoder]]) -> Encoder:
    def encode(out: bytearray, value: Any) -> None:
        for name, inner in fields:
            inner(out, value[name])

    return encode


def _block(out: bytearray, block: bytearray, count: int, mark: bytes) -> None:
    _long(out, count)
    _long(out, len(block))
    out += block
    out += mark
