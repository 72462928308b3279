"""Formats of data that clients send: their media types and file extensions."""

from __future__ import annotations

from odf_protocol.errors import BadInput
from odf_protocol.metadata.reading import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.workbook_types import WORKBOOK_TYPES

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
    **dict.fromkeys(WORKBOOK_TYPES.values(), ReadStepCsv(header=True, infer_schema=True)),
    "application/vnd.shp": None,
    "x-gis/x-shapefile": None,
}
"""Media types of the formats of the specification, each with the read step of a push source that
the node creates for it.

None: the media type is known, but the node creates no source for it. A worker may refuse it.
"""
EXTENSIONS: dict[str, str] = {
    "csv": "text/csv",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "geojson": "application/geo+json",
    "ndgeojson": "application/x-ndgeojson",
    "parquet": "application/vnd.apache.parquet",
    "arrows": "application/vnd.apache.arrow.stream",
    **WORKBOOK_TYPES,
    "shp": "application/vnd.shp",
    "shx": "application/vnd.shp",
}
PACKED = (".gz", ".zip", ".bz2", ".zst")
"""Extensions of compressed files, which workers unpack when they read them."""


class UnsupportedMediaType(BadInput):
    """The Content-Type is not a format in which data can be posted."""

    def __init__(self, given: str) -> None:
        super().__init__("Unsupported media type", given=given, known=sorted(MEDIA_TYPES))


def media_type_of(content_type: str | None, file_name: str) -> str | None:
    """Return the media type of a file: the declared one if it is known, else by its extension."""
    plain = (content_type or "").partition(";")[0].strip().lower()
    if plain in MEDIA_TYPES:
        return plain
    name = file_name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return EXTENSIONS.get(name.rpartition(".")[2])


def extension_of(read: ReadStep) -> str:
    """Return the file extension for data that a source reads. It is `zip` for shapefiles, which
    are sent as archives."""
    formats = ((extension, MEDIA_TYPES[media]) for extension, media in EXTENSIONS.items())
    fitting = (extension for extension, one in formats if type(one) is type(read))
    return next(fitting, "zip")
