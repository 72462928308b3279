"""Rows with a place as GeoParquet: the texts of GeoJSON that datasets have as bytes of WKB.

Slices keep the texts, which have a logical hash that every node computes; so a file is made when it
is asked for. Coordinates of GeoJSON are in WGS 84, which is also what GeoParquet means by default.

Source: GeoParquet 1.1.0; RFC 7946; OGC 06-103r4, "Well-known Binary".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from odf_protocol.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = "geometry"
"""The column that readers of files give to the place of a feature."""
VERSION = "1.1.0"
DEPTH = 32
"""Collections inside of collections."""
_KINDS = {
    "Point": 1,
    "LineString": 2,
    "Polygon": 3,
    "MultiPoint": 4,
    "MultiLineString": 5,
    "MultiPolygon": 6,
    "GeometryCollection": 7,
}
_OF_MANY = {"MultiPoint": "Point", "MultiLineString": "LineString", "MultiPolygon": "Polygon"}
_HAS_HEIGHT = 1_000
_LITTLE_ENDIAN = b"\x01"
_NO_PLACE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, struct.error)
_FURTHEST = (360.0, 90.0)
"""Degrees; a longitude may go on beyond 180, over the end of the map."""


def with_places(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the file: the places as bytes, and the metadata `geo`. Raises
    `NoPlaces`."""
    import pyarrow as pa
    from pyarrow import types

    at = schema.get_field_index(PLACE)
    are_texts = (types.is_string, types.is_large_string, types.is_string_view)
    if at < 0 or not any(is_text(schema.field(at).type) for is_text in are_texts):
        raise BadInput(
            "NoPlaces",
            f"GeoParquet needs the column {PLACE}, a text of GeoJSON, among the columns; ask for "
            "parquet",
        )
    about = {PLACE: {"encoding": "WKB", "geometry_types": []}}
    told = {"version": VERSION, "primary_column": PLACE, "columns": about}
    made = schema.set(at, pa.field(PLACE, pa.binary()))
    return made.with_metadata({"geo": msgspec.json.encode(told)})


def places(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in this schema. Raises `UnwritableColumn` for a text that is no place."""
    import pyarrow as pa

    at = schema.get_field_index(PLACE)
    for batch in batches:
        columns = batch.columns
        texts = columns[at].to_pylist()
        told = [None if text is None else _read(text) for text in texts]
        columns[at] = pa.array(told, pa.binary())
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _read(text: str) -> bytes:
    try:
        return wkb(msgspec.json.decode(text))
    except _NO_PLACE:
        raise BadInput(
            "UnwritableColumn",
            f"GeoParquet holds places of GeoJSON in degrees of WGS 84, and this is none: "
            f"{text[:80]!r}; ask for parquet",
        ) from None


def wkb(geometry: dict[str, Any], depth: int = DEPTH) -> bytes:
    """Return a geometry of GeoJSON, as JSON is decoded, in the binary form.

    Raises one of several errors if it is none.
    """
    name = geometry["type"]
    if name == "GeometryCollection":
        parts = geometry["geometries"]
        if depth == 0:
            raise ValueError("too deep")
        told = [wkb(part, depth - 1) for part in parts]
        width = max((_width(part) for part in parts), default=2)
        return _head(name, width) + struct.pack("<I", len(told)) + b"".join(told)
    return _of_coordinates(name, geometry["coordinates"], _width(geometry))


def _of_coordinates(name: str, at: list[Any], width: int) -> bytes:
    head = _head(name, width)
    if name in _OF_MANY:
        told = [_of_coordinates(_OF_MANY[name], part, width) for part in at]
        return head + struct.pack("<I", len(told)) + b"".join(told)
    match name:
        case "Point":
            return head + (_position(at, width) if at else struct.pack("<d", math.nan) * width)
        case "LineString":
            return head + _line(at, width)
        case _:
            return head + struct.pack("<I", len(at)) + b"".join(_line(ring, width) for ring in at)


def _line(at: list[Any], width: int) -> bytes:
    return struct.pack("<I", len(at)) + b"".join(_position(each, width) for each in at)


def _position(at: list[Any], width: int) -> bytes:
    if len(at) < width or any(abs(x) > most for x, most in zip(at, _FURTHEST, strict=False)):
        raise ValueError("not a position in degrees")
    return struct.pack(f"<{width}d", *at[:width])


def _head(name: str, width: int) -> bytes:
    return _LITTLE_ENDIAN + struct.pack("<I", _KINDS[name] + _HAS_HEIGHT * (width == 3))


def _width(geometry: dict[str, Any]) -> int:
    """Return how many numbers the positions have: two, or three with a height."""
    if geometry["type"] == "GeometryCollection":
        return max((_width(part) for part in geometry["geometries"]), default=2)
    at = geometry["coordinates"]
    while at and isinstance(at[0], list):
        at = at[0]
    return 3 if len(at) >= 3 else 2
