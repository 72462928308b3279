"""Formats data comes in: their media types and file extensions."""

from __future__ import annotations

from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.reading import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)

MEDIA_TYPES: dict[str, ReadStep | None] = {
    "text/csv": ReadStepCsv(header=True, infer_schema=True),
    "application/json": ReadStepJson(),
    "application/x-ndjson": ReadStepNdJson(),
    "application/geo+json": ReadStepGeoJson(),
    "application/x-ndgeojson": ReadStepNdGeoJson(),
    "application/vnd.apache.parquet": ReadStepParquet(),
    "application/parquet": ReadStepParquet(),
    "application/x-parquet": ReadStepParquet(),
    "application/vnd.apache.arrow.stream": ReadStepParquet(),
    "application/vnd.shp": None,
    "x-gis/x-shapefile": None,
}
"""What the formats of the specification are called, and how a source of its own reads one.

None: a name that is known, for a format that no source is made for; a worker may refuse it.
"""
EXTENSIONS: dict[str, str] = {
    "csv": "text/csv",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "geojson": "application/geo+json",
    "ndgeojson": "application/x-ndgeojson",
    "parquet": "application/vnd.apache.parquet",
    "arrows": "application/vnd.apache.arrow.stream",
    "shp": "application/vnd.shp",
    "shx": "application/vnd.shp",
}
PACKED = (".gz", ".zip", ".bz2", ".zst")
"""What workers unpack when they read it."""


class UnsupportedMediaType(BadInput):
    """A Content-Type that names no format data can be posted in."""

    def __init__(self, given: str) -> None:
        super().__init__("Unsupported media type", given=given, known=sorted(MEDIA_TYPES))


def media_type_of(content_type: str | None, file_name: str) -> str | None:
    """Media type of a file: as declared if that is one of ours, else by its extension."""
    plain = (content_type or "").partition(";")[0].strip().lower()
    if plain in MEDIA_TYPES:
        return plain
    name = file_name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return EXTENSIONS.get(name.rpartition(".")[2])


def extension_of(read: ReadStep) -> str:
    """How a file that a source reads is called; shapefiles come in archives."""
    formats = ((extension, MEDIA_TYPES[media]) for extension, media in EXTENSIONS.items())
    fitting = (extension for extension, one in formats if type(one) is type(read))
    return next(fitting, "zip")
