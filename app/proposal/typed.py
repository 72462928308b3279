"""Files that say their types themselves: how much of them is read for a proposal."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_node.protocol.metadata.reading import ReadStepEsriShapefile, ReadStepParquet

from .options import Choices
from .records import MAX_CELLS, NoRecords, Records
from .sample import Sample

UNITS = {"us": 1_000, "ns": 1_000_000}
"""Units finer than a millisecond, of which so many are one."""


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
    return Records(
        names=(),
        columns=(),
        content=sample.content,
        is_whole=whole,
        step=ReadStepParquet(),
        groups=None if whole else seen,
        notes=() if seen or not sizes else (
            "the rows are too many to be looked at: columns and types are those in the file",
        ),
    )  # fmt: skip


def times_cut(records: Records) -> list[str]:
    """Return remarks about times of a Parquet file that are finer than those that are stored."""
    if not isinstance(records.step, ReadStepParquet):
        return []
    content = records.content
    source = pa.BufferReader(content) if isinstance(content, bytes) else str(content)
    with pq.ParquetFile(source) as file:
        finer = [
            field.name
            for field in file.schema_arrow
            if pa.types.is_timestamp(field.type) and field.type.unit in UNITS
        ]
        groups = range(file.num_row_groups) if records.groups is None else records.groups
        cut: set[str] = set()
        for batch in file.iter_batches(row_groups=list(groups), columns=finer) if finer else ():
            cut |= {name for name in finer if _is_cut(batch.column(name))}
    return [f"{name}: times finer than a millisecond are cut" for name in finer if name in cut]


def _is_cut(column: pa.Array) -> bool:
    """Whether a time is not one of whole milliseconds."""
    counts, each = pc.cast(column, pa.int64()), UNITS[column.type.unit]
    rest = pc.subtract(counts, pc.multiply(pc.divide(counts, each), each))
    return bool(pc.any(pc.not_equal(rest, 0)).as_py())


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
