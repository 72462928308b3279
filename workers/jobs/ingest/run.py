"""The steps of an ingest: read, preprocess, stage, merge, write, commit.

Posts become slices as a Batch, most often of one. Everything visible happens in the commit, which
moves the head by compare-and-swap. A writer that loses that race plans again from the new head.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_node.protocol.arrow_schema import from_arrow, to_arrow
from odf_node.protocol.attributes import Attributes
from odf_node.protocol.chain.author import author
from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.errors import BadInput
from odf_node.protocol.instant import Instant
from odf_node.protocol.linked import link_columns, summary_of
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
)
from odf_node.protocol.metadata.events import MetadataEvent, SetDataSchema
from odf_node.protocol.metadata.reading import MergeStrategySnapshot
from odf_node.protocol.metadata.transforms import Transform
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.contents.linked import check_links, links_in
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads.ingest_job import IngestPayload, IngestReceipt
from odf_node.storage.stores.ports import ObjectStore
from odf_node.storage.stores.ports.errors import RefConflict
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind

from ...engines.port.job_listener import Heard
from ...engines.port.port import InvalidQuery, engine_for
from ...engines.port.positions import place_of
from ...merge.table import check_batch, merging_of, takes_operations
from ...plan.ingest import IngestPlan, plan_ingest
from ...readers.forms import forms_of
from ...readers.read import open_frame
from ...readers.rejected import Rejected
from ...runtime.progress import JobProgress
from ...slices.columns import Operation
from ...slices.frame import BATCH_ROWS, Frame
from ...slices.schema import slice_schema
from ...slices.slices import operations, write_slices
from ...slices.write import SlicePlan, Written
from ..work.context import Engines, WorkerContext
from ..work.slice_files import local_file
from .history import history_of
from .merged import FinalRows, fits, merge_here
from .outcome import Extras, PostOutcome, data_events, receipts
from .spark_run import merge_on_spark
from .stage import Staged, stage
from .undeclared import arranged, known_of
from .unpacked import plain_file
from .vanished import check_vanished


class EngineFailed(BadInput):
    """The engine could not run a query, for reasons of its own."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """A batch as it came, and the schema of the slice it will be."""

    staged: Staged
    schema: pa.Schema
    rejected: Rejected | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPost:
    """What was read of a post that is planned on a head."""

    plan: IngestPlan
    extras: Extras
    batch: ReadBatch | None
    """None: the post is empty and tells no schema."""
    rows: FinalRows
    """Merged and in their order, without offsets and system time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """What the posts of a Batch come to; nothing is committed yet."""

    head: Multihash
    """The posts are planned on it, and the first block continues it."""
    blocks: list[HashedBlock]
    state: ChainState
    """With the blocks."""
    slices: list[Written]
    receipts: list[IngestReceipt]
    """One for each post."""


def run_ingest(
    dataset: Dataset,
    payload: IngestPayload,
    context: WorkerContext,
    *,
    now: Instant,
) -> IngestReceipt:
    """Ingest one upload at the time `now`; for posts that come as jobs see `claim.py`.

    Raises:
        NodeError: the post, the source or the dataset's state do not allow it.
        RefConflict: other writers were first too often, or not where the caller expects.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-", dir=context.scratch) as folder:
        scratch = Path(folder)
        path = local_file(
            dataset, ObjectKind.UPLOAD, Multihash.parse(payload.upload), scratch / "upload"
        )
        for attempt in range(1, context.commit_attempts + 1):
            state = dataset.state()
            plan = plan_ingest(state, payload, now=now)
            extras = push_extras(plan, payload, context.ingest.max_rejected_rows)
            post = read_post(dataset, plan, path, context, scratch, extras)
            batch = write_batch(dataset, state, [post], context, scratch)
            try:
                if not payload.dry_run:
                    commit(dataset, batch, context)
                return batch.receipts[0]
            except RefConflict:
                if attempt == context.commit_attempts or payload.expected_head is not None:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def push_extras(plan: IngestPlan, payload: IngestPayload, max_rejected_rows: int) -> Extras:
    """What a push adds: it carries over where the source left off, which it knows nothing of."""
    limit, most = payload.max_vanish_percent, max_rejected_rows
    if payload.max_bad_rows is not None:
        most = min(most, payload.max_bad_rows)
    return Extras(
        source_state=plan.source_state,
        max_vanish_percent=100 if limit is None else limit,
        max_bad_rows=None if payload.on_bad_rows == "fail" else most,
    )


def read_post(
    dataset: Dataset,
    plan: IngestPlan,
    path: Path,
    context: WorkerContext,
    scratch: Path,
    extras: Extras,
) -> ReadPost:
    """A post as far as its rows in their order, which are read, or are going to be."""
    batch = read_batch(plan, path, context, scratch, extras)
    rows = (
        FinalRows(iter(())) if batch is None else final_rows(dataset, plan, batch, context, scratch)
    )
    return ReadPost(plan=plan, extras=extras, batch=batch, rows=rows)


def write_batch(
    dataset: Dataset,
    state: ChainState,
    posts: Sequence[ReadPost],
    context: WorkerContext,
    scratch: Path,
) -> WrittenBatch:
    """Posts that were read on the head of `state` become slices and blocks together; the slices
    lie in `scratch`. More than one only of those that share slices (`post.py`).

    Rows lie in the slices post by post, so that every receipt has an interval of its own.
    """
    plan = replace(posts[0].plan, system_time=max(post.plan.system_time for post in posts))
    schema = next((post.batch.schema for post in posts if post.batch is not None), None)
    slices: list[Written] = []
    if schema is not None:
        rows = chain.from_iterable(post.rows.batches for post in posts)
        slices = write_slices(rows, slice_plan(plan, schema), scratch, context.ingest.cut)
    outcomes = [_outcome(post, slices, alone=len(posts) == 1) for post in posts]
    events: list[MetadataEvent] = []
    if schema is not None and plan.schema is None:
        events.append(SetDataSchema(schema=from_arrow(schema)))
    links = _links(dataset, plan, slices, context.objects)
    events += data_events(plan, slices, posts[0].extras, links=links)
    blocks, after = author(state, events, system_time=plan.system_time)
    return WrittenBatch(
        head=plan.head,
        blocks=blocks,
        state=after,
        slices=slices,
        receipts=receipts(plan, outcomes, slices, blocks),
    )


def _outcome(post: ReadPost, slices: Sequence[Written], *, alone: bool) -> PostOutcome:
    """What came of one post of a Batch. Raises what its strategy does not allow."""
    batch = post.batch
    if batch is None:
        return PostOutcome(rows_read=0, done=Counter())
    rows = batch.staged.rows
    check_vanished(post.plan, rows, slices, post.extras.max_vanish_percent)
    return PostOutcome(
        rows_read=rows,
        done=operations(slices) if alone else Counter({Operation.APPEND: rows}),
        rejected=batch.rejected,
        warnings=(*batch.warnings, *post.rows.warnings),
    )


def read_batch(
    plan: IngestPlan, path: Path, context: WorkerContext, scratch: Path, extras: Extras
) -> ReadBatch | None:
    """The batch as it came; None if it is empty and tells no schema."""
    rejected = Rejected(extras.max_bad_rows) if extras.max_bad_rows is not None else None
    path = plain_file(path, plan.read, scratch, context.ingest.limits.archives)
    read = open_frame(plan.read, path, context.ingest.limits, rejected, known_of(plan))
    if read is None:
        return None
    frame = arranged(read, plan)
    if plan.preprocess is not None:
        frame = preprocessed(frame, plan.preprocess, context.engines, context.job_progress, scratch)
    known = to_arrow(plan.schema) if plan.schema is not None else None
    staged = stage(
        Frame(frame.schema, context.job_progress.rows(frame.batches)),
        scratch / "staged.parquet",
        vocab=plan.vocab,
        coerces=plan.coerces,
        takes_operations=takes_operations(plan.merge),
        known=known,
        rejected=rejected if plan.preprocess is None else None,
        forms=forms_of(plan.read),
    )
    schema = slice_schema(staged.schema, plan.vocab, known)
    return ReadBatch(staged=staged, schema=schema, rejected=rejected, warnings=tuple(read.warnings))


def commit(dataset: Dataset, batch: WrittenBatch, context: WorkerContext) -> None:
    """Put the slices, then move the head once. Raises `RefConflict`."""
    if batch.blocks:
        put_slices(dataset, batch.slices, context.objects, context.ingest.cut.threads)
        dataset.commit(batch.blocks, expected=batch.head)


def put_slices(
    dataset: Dataset, slices: Sequence[Written], objects: ObjectStore, threads: int
) -> None:
    """Upload slices side by side; returns when all are there."""

    def put(written: Written) -> None:
        if written.data is not None:
            key = ObjectKey(dataset.id, ObjectKind.DATA, written.data.physical_hash)
            objects.put(key, written.chunks())

    if len(slices) <= 1:
        for written in slices:
            put(written)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="uploads") as pool:
        for _ in pool.map(put, slices):
            pass


def final_rows(
    dataset: Dataset, plan: IngestPlan, batch: ReadBatch, context: WorkerContext, scratch: Path
) -> FinalRows:
    """The rows as they will be written, merged and in their order, without offsets and system
    time. Only a snapshot can have something to say without rows.

    Raises: as `check_batch`, `history_of`, `merge_here`, `merge_on_spark`.
    """
    context.job_progress.phase("merge")
    staged, schema, options = batch.staged, batch.schema, context.ingest
    snapshot = isinstance(plan.merge, MergeStrategySnapshot)
    if staged.rows == 0 and not (snapshot and plan.has_history):
        return FinalRows(iter(()))
    check_batch(plan.merge, merging_of(plan.merge, plan.vocab), staged.schema)
    history = history_of(dataset, plan, schema, options.states, scratch)
    if fits(staged, plan, history, options.merge_bytes):
        rows = merge_here(staged, plan, schema, history)
    else:
        session, partitions = context.engines.session, options.partitions
        rows = merge_on_spark(
            staged, plan, schema, history, session, scratch, partitions=partitions
        )
    return FinalRows(context.job_progress.rows(iter(rows.batches)), rows.warnings)


def slice_plan(plan: IngestPlan, schema: pa.Schema) -> SlicePlan:
    """What the rows of a batch have in common once they are written."""
    return SlicePlan(
        schema=schema,
        vocab=plan.vocab,
        start=plan.next_offset,
        system_time=plan.system_time,
        source_event_time=plan.source_event_time,
    )


def _links(
    dataset: Dataset, plan: IngestPlan, slices: Sequence[Written], objects: ObjectStore
) -> list[Attributes | None]:
    """For each slice what it links to. Raises `InvalidValue`, `DanglingReference`."""
    columns = link_columns(plan.schema)
    if not columns:
        return [None] * len(slices)
    found = [links_in(written.source(), columns) for written in slices]
    return [summary_of(check_links(objects, dataset.id, links)) for links in found]


def preprocessed(
    frame: Frame, transform: Transform, engines: Engines, job_progress: JobProgress, scratch: Path
) -> Frame:
    """What a query makes of the rows.

    Raises:
        InvalidQuery, UnsupportedEngine, EngineFailed.
    """
    engine = engine_for(transform, engines.all)
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
    job_progress.check()  # an engine that was stopped says that it took too long
    if isinstance(response, RawQueryResponseInvalidQuery):
        where = place_of(response.message)
        raise InvalidQuery(f"preprocessing failed: {response.message}", **where)
    if isinstance(response, RawQueryResponseInternalError):
        raise EngineFailed(f"the engine failed while preprocessing: {response.message}")
    file = pq.ParquetFile(target)
    return Frame(file.schema_arrow, file.iter_batches(BATCH_ROWS))
