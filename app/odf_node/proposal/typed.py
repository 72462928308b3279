"""Files that say their types themselves: how much of them is read for a proposal."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.arrow_schema import from_arrow
from odf_protocol.metadata.reading import ReadStepEsriShapefile, ReadStepParquet
from odf_protocol.metadata.schema import DataSchema

from .columns import is_stored
from .options import Choices
from .records import MAX_CELLS, NoRecords, Records
from .sample import Sample


def parquet_of(sample: Sample, choices: Choices) -> Records:  # noqa: ARG001
    """Return which row groups of a Parquet file are looked at, as many as the limit of cells
    allows. Raises `NoRecords`."""
    if not sample.is_whole:
        raise NoRecords(f"{sample.name} is too long to be looked at: its columns are at its end")
    source = pa.BufferReader(sample.data) if sample.file is None else str(sample.file)
    try:
        with pq.ParquetFile(source) as file:
            facts = file.metadata
            sizes = [facts.row_group(at).num_rows for at in range(facts.num_row_groups)]
            width = max(1, facts.num_columns)
    except (pa.ArrowException, OSError, ValueError) as bad:
        raise NoRecords(f"{sample.name} is no Parquet file: {str(bad)[:200]}") from None
    seen = tuple(at for at, rows in enumerate(accumulate(sizes)) if rows * width <= MAX_CELLS)
    whole = len(seen) == len(sizes)
    from odf_workers.stages.preview import file_columns  # not in the service

    return Records(
        names=(),
        columns=(),
        content=sample.content,
        is_whole=whole,
        step=ReadStepParquet(),
        types=file_columns(ReadStepParquet(), sample.content),
        groups=None if whole else seen,
        notes=() if seen or not sizes else (
            "the rows are too many to be looked at: columns and types are those in the file",
        ),
    )  # fmt: skip


def stored_form(types: pa.Schema) -> DataSchema | None:
    """Return the columns in which rows of the file can be stored, if that is not its own form:
    durations as counts, and lists and objects that have no hash, or no type, as JSON."""
    if all(is_stored(field.type) for field in types):
        return None
    fields = [
        field
        if is_stored(field.type)
        else field.with_type(pa.int64() if pa.types.is_duration(field.type) else pa.string())
        for field in types
    ]
    return from_arrow(pa.schema([field.with_nullable(True) for field in fields]))


def shapefile_of(sample: Sample, choices: Choices) -> Records:
    """Return how a shapefile is read. Raises `NoRecords`."""
    if not sample.is_whole:
        raise NoRecords(f"{sample.name} is too long to be looked at: an archive is read whole")
    return Records(
        names=(),
        columns=(),
        content=sample.content,
        is_whole=True,
        step=ReadStepEsriShapefile(sub_path=choices.path or None),
    )
