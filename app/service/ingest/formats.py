"""Formats data comes in: their media types and file extensions, and a source made for one."""

from __future__ import annotations

from odf_node.protocol.chain.author import author
from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.errors import BadInput
from odf_node.protocol.identity import DatasetRef
from odf_node.protocol.metadata.events import AddPushSource, DatasetKind
from odf_node.protocol.metadata.reading import (
    MergeStrategyAppend,
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_node.storage.stores.ports.errors import RefConflict
from odf_node.storage.stores.ports.values import DatasetEntry

from ..wiring import Node

AUTO_SOURCE = "auto"
APPEND_ATTEMPTS = 5
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


class UnsupportedMediaType(BadInput):
    """A Content-Type that names no format data can be posted in."""

    def __init__(self, given: str) -> None:
        super().__init__("Unsupported media type", given=given, known=sorted(MEDIA_TYPES))


def media_type_of(content_type: str | None, file_name: str) -> str | None:
    """Media type of a file: as declared if that is one of ours, else by its extension."""
    plain = (content_type or "").partition(";")[0].strip().lower()
    if plain in MEDIA_TYPES:
        return plain
    name = file_name.lower().removesuffix(".gz").removesuffix(".zip")  # unpacked when it is read
    return EXTENSIONS.get(name.rpartition(".")[2])


def extension_of(read: ReadStep) -> str:
    """How a file that a source reads is called; shapefiles come in archives."""
    formats = ((extension, MEDIA_TYPES[media]) for extension, media in EXTENSIONS.items())
    fitting = (extension for extension, one in formats if type(one) is type(read))
    return next(fitting, "zip")


def takes_first_source(state: ChainState) -> bool:
    """Whether the dataset could be pushed to, had it a source."""
    is_root = state.kind is not DatasetKind.Derivative
    return is_root and state.polling_source is None and not state.push_sources


def add_auto_source(node: Node, entry: DatasetEntry, media_type: str | None) -> str:
    """Name of a new push source that reads the format and appends everything.

    When somebody else was faster, theirs is used.

    Raises:
        UnsupportedMediaType, ChainRuleBroken, RefConflict: others kept winning.
    """
    read = MEDIA_TYPES.get(media_type or "")
    if read is None:
        raise UnsupportedMediaType(media_type or "")
    event = AddPushSource(source_name=AUTO_SOURCE, read=read, merge=MergeStrategyAppend())
    dataset = node.stores.dataset(DatasetRef(id=entry.id))
    for attempt in range(1, APPEND_ATTEMPTS + 1):
        head = dataset.head()
        state = dataset.state(head)
        if AUTO_SOURCE in state.push_sources:
            break
        now = node.clock()
        time = now if state.system_time is None else max(now, state.system_time)
        blocks, _ = author(state, (event,), system_time=time)
        try:
            dataset.commit(blocks, expected=head)
        except RefConflict:
            if attempt == APPEND_ATTEMPTS:
                raise
        else:
            break
    return AUTO_SOURCE
