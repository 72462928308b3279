"""Manifests and manifest lists, which say what files a snapshot of a table has.

Source: Iceberg table specification, "Manifests", "Manifest lists", version 2 of the format.

Writes Avro files: returns the bytes of a container for a schema and rows.

The same rows give the same bytes, because the sync marker is a hash of the header.
Source: Avro specification 1.11, "Binary encoding", "Object container files".
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from .metadata import IcebergSchema

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
    return _avro_record([(each["name"], encoder(each["type"])) for each in schema["fields"]])


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


def _avro_record(fields: list[tuple[str, Encoder]]) -> Encoder:
    def encode(out: bytearray, value: Any) -> None:
        for name, inner in fields:
            inner(out, value[name])

    return encode


def _block(out: bytearray, block: bytearray, count: int, mark: bytes) -> None:
    _long(out, count)
    _long(out, len(block))
    out += block
    out += mark


ADDED = 1
"""Status of a manifest entry whose own snapshot added the file."""
DELETE_PATH_ID, DELETE_POS_ID = 2147483546, 2147483545
"""Ids of the two columns of position delete files."""
_WIDTHS = {"int": "<i", "long": "<q", "timestamp": "<q", "timestamptz": "<q"}


class FileContent(IntEnum):
    """Kind of the files in a manifest."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Facts about a column in a file: bounds of its values, and the number of nulls."""

    column: int
    lower: bytes | None = None
    upper: bytes | None = None
    nulls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a snapshot, with the snapshot that added it."""

    path: str
    rows: int
    size: int
    snapshot: int
    sequence: int
    """The sequence number of that snapshot, from 1."""
    ranges: Sequence[Range] = ()
    deletes_from: str | None = field(default=None)
    """The file whose rows this file deletes; None for data files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergManifest:
    """A manifest as an entry of a manifest list."""

    path: str
    size: int
    content: FileContent
    snapshot: int
    sequence: int
    first_sequence: int
    files: int
    rows: int


def bound(kind: str, value: int) -> bytes | None:
    """Return a value in the form of bounds; times in microseconds. None for other types."""
    width = _WIDTHS.get(kind)
    return None if width is None else struct.pack(width, value)


def manifest_file(files: Iterable[File], schema: IcebergSchema, content: FileContent) -> bytes:
    """Return the bytes of a manifest."""
    told = {
        "schema": json.dumps(schema.told, separators=(",", ":"), ensure_ascii=False),
        "schema-id": str(schema.number),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": content.name.lower(),
    }
    return container(_ENTRY, (_entry(each, content) for each in files), told)


def manifest_list(
    manifests: Iterable[IcebergManifest], *, snapshot: int, parent: int | None, sequence: int
) -> bytes:
    """Return the bytes of the manifest list of a snapshot."""
    told = {
        "snapshot-id": str(snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": "2",
    }
    return container(_LISTED, map(_listed, manifests), told)


def _entry(file: File, content: FileContent) -> dict[str, Any]:
    known = file.ranges
    return {
        "status": ADDED,
        "snapshot_id": file.snapshot,
        "sequence_number": file.sequence,
        "file_sequence_number": file.sequence,
        "data_file": {
            "content": int(content),
            "file_path": file.path,
            "file_format": "PARQUET",
            "partition": {},
            "record_count": file.rows,
            "file_size_in_bytes": file.size,
            "column_sizes": [],
            "value_counts": _pairs((each.column, file.rows) for each in known),
            "null_value_counts": _pairs((each.column, each.nulls) for each in known),
            "nan_value_counts": [],
            "lower_bounds": _pairs((each.column, each.lower) for each in known),
            "upper_bounds": _pairs((each.column, each.upper) for each in known),
            "referenced_data_file": file.deletes_from,
        },
    }


def _pairs(known: Iterable[tuple[int, Any]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in known if value is not None]


def _listed(each: IcebergManifest) -> dict[str, Any]:
    return {
        "manifest_path": each.path,
        "manifest_length": each.size,
        "partition_spec_id": 0,
        "content": int(each.content),
        "sequence_number": each.sequence,
        "min_sequence_number": each.first_sequence,
        "added_snapshot_id": each.snapshot,
        "added_files_count": each.files,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": each.rows,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
    }


def _field(name: str, number: int, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    told = {"name": name, "type": ["null", kind] if optional else kind, "field-id": number}
    return told | ({"default": None} if optional else {})


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _map(name: str, number: int, key: int, value: int, kind: str) -> dict[str, Any]:
    """Return a field that maps column ids to values. It is an array of pairs, because the keys of
    Avro maps can only be text."""
    pair = _record(f"k{key}_v{value}", _field("key", key, "int"), _field("value", value, kind))
    return _field(
        name, number, {"type": "array", "logicalType": "map", "items": pair}, optional=True
    )


_DATA_FILE = _record(
    "r2",
    _field("content", 134, "int"),
    _field("file_path", 100, "string"),
    _field("file_format", 101, "string"),
    _field("partition", 102, _record("r102")),
    _field("record_count", 103, "long"),
    _field("file_size_in_bytes", 104, "long"),
    _map("column_sizes", 108, 117, 118, "long"),
    _map("value_counts", 109, 119, 120, "long"),
    _map("null_value_counts", 110, 121, 122, "long"),
    _map("nan_value_counts", 137, 138, 139, "long"),
    _map("lower_bounds", 125, 126, 127, "bytes"),
    _map("upper_bounds", 128, 129, 130, "bytes"),
    _field("referenced_data_file", 143, "string", optional=True),
)
_ENTRY = _record(
    "manifest_entry",
    _field("status", 0, "int"),
    _field("snapshot_id", 1, "long", optional=True),
    _field("sequence_number", 3, "long", optional=True),
    _field("file_sequence_number", 4, "long", optional=True),
    _field("data_file", 2, _DATA_FILE),
)
_LISTED = _record(
    "manifest_file",
    _field("manifest_path", 500, "string"),
    _field("manifest_length", 501, "long"),
    _field("partition_spec_id", 502, "int"),
    _field("content", 517, "int"),
    _field("sequence_number", 515, "long"),
    _field("min_sequence_number", 516, "long"),
    _field("added_snapshot_id", 503, "long"),
    _field("added_files_count", 504, "int"),
    _field("existing_files_count", 505, "int"),
    _field("deleted_files_count", 506, "int"),
    _field("added_rows_count", 512, "long"),
    _field("existing_rows_count", 513, "long"),
    _field("deleted_rows_count", 514, "long"),
)
