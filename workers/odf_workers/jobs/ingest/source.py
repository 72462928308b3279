"""The file of a post, prepared for the stages: unpacked, preprocessed, cut into splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
from msgspec import structs

from odf_protocol.columns.stored_values import bounded_leaves
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    Transform,
)
from odf_protocol.metadata.sources import ReadStep, ReadStepParquet

from ...engines.port.job_listener import Heard
from ...engines.port.port import INPUT, InvalidQuery, engine_for, place_of
from ...engines.port.refusals import in_plain_words
from ...partitions.port import Spans, Way
from ...plan.ingest import IngestPlan
from ...readers.formats.plain import PlainTables, naming, plain_file
from ...readers.formats.plain_text import Plain
from ...readers.formats.read import SplitRead, open_frame, open_splits, schema_of
from ...readers.formats.splits import (
    LINES,
    SPLIT_BYTES,
    ReaderSplit,
    Splits,
    plan_splits,
    split_count,
    splits_of_table,
    unpacked_size,
)
from ...readers.values.features import Known
from ...readers.values.rejected import Rejected
from ...runtime.progress import Content, Enclosed, JobProgress
from ...slices.schema import Frame, Limits
from ...stages.read import known_of, with_added_columns, with_declared_columns
from ..work.context import Engines, WorkerContext


class EngineFailed(BadInput):
    """The engine could not run a query, for an internal reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file and how to read it. The result of a preprocessing query is a new file; warnings and
    rejected rows of the original file are known by then."""

    content: Content
    step: ReadStep
    sizes: tuple[int, ...]
    """Unpacked sizes of the file, or of each file of the table."""
    known: Known | None = None
    preprocessed_bytes: int | None = None
    """Bytes of the file that the query read, if this one is the result of a query."""
    rejected: Rejected | None = None
    warnings: tuple[str, ...] = ()
    table: PlainTables | None = None
    """The files of a table in the folder `content`, instead of one file."""

    @property
    def is_prepared(self) -> bool:
        return self.preprocessed_bytes is not None

    @property
    def size(self) -> int:
        return sum(self.sizes)


def source_of(
    plan: IngestPlan,
    content: Content,
    context: WorkerContext,
    scratch: Path,
    most: int | None,
    table: PlainTables | None = None,
) -> Source | None:
    """Return the file to read, or the files of a table; `most` is the limit of bad rows that are
    set aside. None if a query has no input.

    Raises:
        NodeError: the file cannot be unpacked, or the query reports an error in its rows.
    """
    limits = context.ingest.limits
    plain = Plain(content, plan.read)
    if table is None:
        plain = plain_file(content, plan.read, scratch, limits)
    content, read, told = plain.content, plain.step, plain.warnings
    known = known_of(plan)
    sizes = _sizes(read, content, table, limits)
    if plan.preprocess is None:
        return Source(
            content=content, step=read, sizes=sizes, known=known, table=table, warnings=told
        )
    rejected = None if most is None else Rejected(most)
    if table is None:
        frame = open_frame(read, content, limits, rejected, known)
    else:
        whole = SplitRead(step=read, limits=limits, known=known)
        frame = open_splits(whole, splits_of_table(table, sizes, 1).splits, rejected)
    if frame is None:
        return None
    rows = Frame(frame.schema, context.job_progress.rows(frame.batches))
    made = preprocessed(rows, plan.preprocess, context.engines, context.job_progress, scratch)
    step = ReadStepParquet()
    return Source(
        content=made,
        step=step,
        sizes=(unpacked_size(step, made, limits),),
        preprocessed_bytes=sum(sizes),
        rejected=rejected,
        warnings=(*told, *frame.warnings),
    )


def adding_columns(
    plan: IngestPlan, source: Source, limits: Limits, most: int | None
) -> tuple[IngestPlan, Source]:
    """Return the plan and the source for a batch whose new columns extend the dataset's schema, and
    that of a source that declares one. Raises as `with_added_columns`, and the same errors as the
    reader for the head of the file."""
    aside = None if most is None else Rejected(most)
    step, content = source.step, source.content
    frame = open_frame(step, content, limits, aside, source.known, as_declared=False)
    if frame is None:
        return plan, source
    if step.schema is None:
        grown, remarks = with_added_columns(plan, frame)
    else:
        grown, remarks = with_declared_columns(plan, frame.schema)
        step = structs.replace(step, schema=grown.read.schema)
    warnings = (*source.warnings, *remarks)
    return grown, replace(source, step=step, known=known_of(grown), warnings=warnings)


def _sizes(
    step: ReadStep, content: Content, table: PlainTables | None, limits: Limits
) -> tuple[int, ...]:
    """Return the unpacked size of the file, or of each file of the table. Raises as
    `unpacked_size`."""
    if table is None:
        return (unpacked_size(step, content, limits),)
    sizes = []
    for each in table.files:
        try:
            sizes.append(unpacked_size(step, each.path, limits))
        except NodeError as bad:
            raise naming(bad, each.part.key) from None
    return tuple(sizes)


def splits_of(
    source: Source | None, plan: IngestPlan, way: Way, limits: Limits, most: int | None
) -> tuple[SplitRead, Splits]:
    """Return how to read the file with this way, and the parts that are read in parallel. `most` is
    the limit of bad rows that are set aside.

    Raises: the same errors as the reader for the head of the file.
    """
    if source is None:
        return SplitRead(step=plan.read, limits=limits), Splits(splits=())
    whole = SplitRead(step=source.step, limits=limits, known=source.known)
    if source.table is not None:
        found = splits_of_table(source.table, source.sizes, way.width)
        return whole, replace(found, splits=_seen_by(way, found.splits))
    if way.in_process:
        return whole, Splits(splits=(ReaderSplit(file=source.content),))
    schema = schema_of(source.step)
    if (
        schema is None
        and isinstance(source.step, LINES)
        and split_count(source.size, way.width) > 1
    ):
        aside = None if most is None else Rejected(most)
        frame = open_frame(source.step, source.content, limits, aside, source.known)
        schema = None if frame is None else frame.schema
    found = plan_splits(source.step, source.content, schema, way.width, source.size)
    if not isinstance(source.content, Enclosed):
        found = replace(found, splits=_seen_by(way, found.splits))
    if len(found.splits) == 1:
        return whole, found
    return replace(whole, schema=schema, names_columns=found.names_columns), found


def _seen_by(way: Way, splits: Sequence[ReaderSplit]) -> tuple[ReaderSplit, ...]:
    """Return splits of files of this machine with the files in the form that stages receive. Each
    file is lent once, in the parts that its splits need."""
    parts: dict[Path, list[Spans | None]] = {}
    for split in splits:
        for each in (split, *split.then):
            parts.setdefault(_path(each), []).append(each.spans)
    files = {path: iter(way.spans(path, wanted)) for path, wanted in parts.items()}

    def seen(split: ReaderSplit) -> ReaderSplit:
        file = next(files[_path(split)])
        return replace(split, file=file, then=tuple(map(seen, split.then)))

    return tuple(map(seen, splits))


def _path(split: ReaderSplit) -> Path:
    if not isinstance(split.file, Path):
        raise AssertionError("unreachable: splits are planned from files of this machine")
    return split.file


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
    bounded = bounded_leaves(frame.schema)
    with pq.ParquetWriter(
        source, frame.schema, compression="lz4", write_statistics=bounded
    ) as writer:
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
        where, tables = place_of(response.message), {INPUT: frame.schema.names}
        told = in_plain_words(response.message, "the query", tables)
        raise InvalidQuery(f"preprocessing failed: {told}", **where)
    if isinstance(response, RawQueryResponseInternalError):
        raise EngineFailed(f"the engine failed while preprocessing: {response.message}")
    return target
