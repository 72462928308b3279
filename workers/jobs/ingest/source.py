"""The file of a post, prepared for the stages: unpacked, preprocessed, cut into splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
)
from odf_node.protocol.metadata.reading import ReadStep, ReadStepCsv, ReadStepParquet
from odf_node.protocol.metadata.transforms import Transform

from ...engines.port.job_listener import Heard
from ...engines.port.port import InvalidQuery, engine_for
from ...engines.port.positions import place_of
from ...partitions.files import Enclosed, present
from ...partitions.port import Way
from ...plan.ingest import IngestPlan
from ...readers.known import Known
from ...readers.parquet import unpacked_size
from ...readers.read import open_frame, schema_of
from ...readers.read_split import SplitRead, open_splits
from ...readers.rejected import Rejected
from ...readers.splits import SPLIT_BYTES, Split, Splits, plan_splits, split_count, splits_of_table
from ...readers.table_files import TableFiles
from ...runtime.progress import JobProgress
from ...slices.frame import Frame, Limits
from ...stages.undeclared import arranged, known_of
from ..work.context import Engines, WorkerContext
from .unpacked import plain_file


class EngineFailed(BadInput):
    """The engine could not run a query, for an internal reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file and how to read it. The result of a preprocessing query is a new file; warnings and
    rejected rows of the original file are known by then."""

    path: Path
    step: ReadStep
    size: int
    """Bytes of the file, or of its values if it packs them."""
    enclosed: Enclosed | None = None
    """Content of the path, if it is a small body stored in the job."""
    known: Known | None = None
    is_prepared: bool = False
    rejected: Rejected | None = None
    warnings: tuple[str, ...] = ()
    table: TableFiles | None = None
    """The files of a table below the path, instead of one file at the path."""


def source_of(
    plan: IngestPlan,
    path: Path,
    context: WorkerContext,
    scratch: Path,
    most: int | None,
    table: TableFiles | None = None,
    enclosed: Enclosed | None = None,
) -> Source | None:
    """Return the file to read, or the files of a table; `most` is the limit of bad rows that are
    set aside. None if a query has no input. `enclosed` is the content of the path, if it is not on
    a disk.

    Raises:
        NodeError: the file cannot be unpacked, or the query reports an error in its rows.
    """
    limits = context.ingest.limits
    if table is None:
        given, path = path, plain_file(path, plan.read, scratch, limits.archives)
        enclosed = enclosed if path == given else None
    known = known_of(plan)
    if plan.preprocess is None:
        size = table.size if table is not None else _size(plan.read, path, limits)
        return Source(
            path=path, step=plan.read, size=size, enclosed=enclosed, known=known, table=table
        )
    rejected = None if most is None else Rejected(most)
    if table is None:
        frame = open_frame(plan.read, path, limits, rejected, known)
    else:
        whole = SplitRead(step=plan.read, limits=limits, known=known)
        frame = open_splits(whole, splits_of_table(table), rejected)
    if frame is None:
        return None
    rows = arranged(frame, plan)
    rows = Frame(rows.schema, context.job_progress.rows(rows.batches))
    made = preprocessed(rows, plan.preprocess, context.engines, context.job_progress, scratch)
    step = ReadStepParquet()
    return Source(
        path=made,
        step=step,
        size=_size(step, made, limits),
        is_prepared=True,
        rejected=rejected,
        warnings=tuple(frame.warnings),
    )


def _size(step: ReadStep, path: Path, limits: Limits) -> int:
    if isinstance(step, ReadStepParquet):
        return unpacked_size(path, limits)
    return path.stat().st_size


def splits_of(
    source: Source | None, plan: IngestPlan, way: Way, limits: Limits
) -> tuple[SplitRead, Splits]:
    """Return how to read the file with this way, and the parts that are read in parallel.

    Raises: the same errors as the reader for the head of the file.
    """
    if source is None:
        return SplitRead(step=plan.read, limits=limits), Splits(splits=())
    whole = SplitRead(step=source.step, limits=limits, known=source.known)
    if source.table is not None:
        parts = splits_of_table(source.table, way.width)
        return whole, Splits(splits=tuple(_seen_by(way, each) for each in parts))
    if way.width == 1:
        return whole, Splits(splits=(Split(file=source.enclosed or source.path),))
    schema = schema_of(source.step)
    if (
        schema is None
        and isinstance(source.step, ReadStepCsv)
        and split_count(source.size, way.width) > 1
    ):
        frame = open_frame(source.step, source.path, limits, known=source.known)
        schema = None if frame is None else frame.schema
    found = plan_splits(source.step, source.path, schema, way.width)
    file = source.enclosed or way.file(source.path)
    found = replace(found, splits=tuple(replace(each, file=file) for each in found.splits))
    if len(found.splits) == 1:
        return whole, found
    return replace(whole, schema=schema, names_columns=found.names_columns), found


def _seen_by(way: Way, split: Split) -> Split:
    then = tuple(_seen_by(way, each) for each in split.then)
    with present(split.file) as path:
        return replace(split, file=way.file(path), then=then)


def is_one_partition(source: Source, found: Splits) -> bool:
    """Whether one task has all of the rows, and the memory for them."""
    return len(found.splits) == 1 and source.size <= SPLIT_BYTES


def preprocessed(
    frame: Frame, transform: Transform, engines: Engines, job_progress: JobProgress, scratch: Path
) -> Path:
    """Run a query on the rows, and return the file of its result.

    Raises:
        InvalidQuery, UnsupportedEngine, EngineFailed.
    """
    engine = engine_for(transform, engines.all)
    scratch.mkdir(parents=True, exist_ok=True)
    source, target = scratch / "input.parquet", scratch / "preprocessed.parquet"
    with pq.ParquetWriter(source, frame.schema, compression="lz4") as writer:
        for batch in frame.batches:
            writer.write_batch(batch)
    response = engine.execute_raw_query(
        RawQueryRequest(
            input_data_paths=(str(source),), transform=transform, output_data_path=str(target)
        ),
        Heard(job_progress),
    )
    job_progress.check()  # a stopped engine reports that it took too long
    if isinstance(response, RawQueryResponseInvalidQuery):
        where = place_of(response.message)
        raise InvalidQuery(f"preprocessing failed: {response.message}", **where)
    if isinstance(response, RawQueryResponseInternalError):
        raise EngineFailed(f"the engine failed while preprocessing: {response.message}")
    return target
