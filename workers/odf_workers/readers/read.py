"""Open a file by a read step: the table of readers, schemas, and media types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa

from odf_protocol.arrow_schema import to_arrow
from odf_protocol.errors import BadInput
from odf_protocol.metadata.reading import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.workbook_types import WORKBOOK_TYPES

from ..runtime.content import Content
from ..slices.frame import Frame, Limits, Unsupported
from .csv import read_csv
from .json import read_geojson, read_json, read_ndgeojson, read_ndjson
from .known import Known
from .parquet import read_parquet
from .plain_text import is_plain, plain_text
from .rejected import Rejected
from .shapefile import read_shapefile

Reader = Callable[
    [Any, Content, pa.Schema | None, Limits, Rejected | None, Known | None], Frame | None
]
READERS: dict[type, Reader] = {
    ReadStepCsv: read_csv,
    ReadStepJson: read_json,
    ReadStepNdJson: read_ndjson,
    ReadStepGeoJson: read_geojson,
    ReadStepNdGeoJson: read_ndgeojson,
    ReadStepParquet: read_parquet,
    ReadStepEsriShapefile: read_shapefile,
}
MEDIA_TYPES: dict[str, type[ReadStep]] = {
    "text/csv": ReadStepCsv,
    "application/json": ReadStepJson,
    "application/x-ndjson": ReadStepNdJson,
    "application/geo+json": ReadStepGeoJson,
    "application/x-ndgeojson": ReadStepNdGeoJson,
    "application/vnd.apache.parquet": ReadStepParquet,
    "application/parquet": ReadStepParquet,
    "application/x-parquet": ReadStepParquet,
    "application/vnd.apache.arrow.stream": ReadStepParquet,
    **dict.fromkeys(WORKBOOK_TYPES.values(), ReadStepCsv),
    "application/vnd.shp": ReadStepEsriShapefile,
    "x-gis/x-shapefile": ReadStepEsriShapefile,
}


class UnsupportedMediaType(BadInput):
    """No reader has this media type."""


def open_frame(
    step: ReadStep,
    content: Content,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
    *,
    as_declared: bool = True,
) -> Frame | None:
    """Open a file for reading by a read step; None if it is empty and there is no schema.

    Rows that cannot be read fail the batch, or are added to `rejected`. Without a schema, columns
    receive their `known` types where these fit; `as_declared=False` opens the file as if the step
    had none.

    Raises:
        Unsupported: this node does not read this kind of file, or an option.
        UnsupportedSchema: the step's schema has no Arrow form.
        BadInput: the head of the file is wrong; the batches raise later errors.
    """
    reader = READERS.get(type(step))
    if reader is None:
        kind = msgspec.to_builtins(step)["kind"]
        raise Unsupported(f"reading {kind} is not supported", kind=kind)
    schema = schema_of(step) if as_declared else None
    if is_plain(content, step):
        return reader(step, content, schema, limits, rejected, known)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="text-")))
        plain = plain_text(content, step, folder / "plain", limits)
        frame = reader(plain.step, plain.content, schema, limits, rejected, known)
        if frame is None:
            return None
        frame.warnings[:0] = plain.warnings
        return replace(frame, batches=closing(frame.batches, stack.pop_all()))


def closing(batches: Iterator[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and close what they are read from."""
    with stack:
        yield from batches


def schema_of(step: ReadStep) -> pa.Schema | None:
    """Return the schema that a read step declares, in either of its forms. Raises
    `UnsupportedSchema`."""
    if step.schema is not None:
        return to_arrow(step.schema)
    if step.ddl_schema is not None:
        return _of_ddl(tuple(step.ddl_schema))
    return None


@lru_cache
def _of_ddl(columns: tuple[str, ...]) -> pa.Schema:
    from odf_protocol.ddl import parse_ddl

    return to_arrow(parse_ddl(columns))


def for_media_type(step: ReadStep, media_type: str | None) -> ReadStep:
    """Return the step unchanged if the media type is its own, else a default reader with its
    schema.

    Raises:
        UnsupportedMediaType: no reader has that type, ignoring parameters and case.
    """
    if media_type is None:
        return step
    plain = media_type.partition(";")[0].strip().lower()
    kind: Any = MEDIA_TYPES.get(plain)
    if kind is None:
        raise UnsupportedMediaType(f"unsupported media type {media_type!r}", media_type=media_type)
    if kind is type(step):
        return step
    declared = step.schema is not None or step.ddl_schema is not None
    header = {"header": True} if kind is ReadStepCsv and not declared else {}
    changed: ReadStep = kind(schema=step.schema, ddl_schema=step.ddl_schema, **header)
    return changed
