"""The steps of an ingest: read, preprocess, merge, write, commit.

Posts are written to slices as a Batch, which usually has one post. Nothing is visible before the
commit, which moves the head by compare-and-swap. A writer that loses that race plans again from the
new head.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import structs

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import ChainState
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.columns.column_names import with_units_of
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddPushSource, HashedBlock, MetadataEvent, SetDataSchema
from odf_protocol.references import link_columns, summary_of
from odf_storage.datasets.contents.linked import check_links, links_in
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import (
    IngestPayload,
    IngestReceipt,
    upload_of,
)
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ...merge.strategies import bytes_of_all, reads_history
from ...partitions.port import Here, Way
from ...plan.ingest import IngestPlan, plan_ingest
from ...readers.formats.plain import PlainTables
from ...readers.formats.splits import Splits
from ...runtime.progress import Content
from ...slices.schema import Operation
from ...slices.write import Written, operations
from ...stages.batch import Batch, BatchRows, ReadPost, joint_plan, run_batch
from ...stages.pipeline import is_passing
from ...stages.read import PostRead
from ..work.context import BatchSize, WorkerContext, local_object, put_slice, readable, reported
from .history import bring_up_to_date, check_vanished, emptied_warnings, history_of, lent
from .outcome import (
    Extras,
    PostOutcome,
    ahead_warnings,
    data_events,
    only_retracts,
    receipts,
)
from .source import Source, adding_columns, is_one_partition, source_of, splits_of
from .ways import LARGE, ONE_TASK, SMALL, is_one_task, ran, run_tasks, way_of

AHEAD_BYTES = 1 << 20
"""Bytes of new slices from which the merge state takes them up ahead of the next post; smaller ones
take little time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPost:
    """A post planned on a head, with its file in the form that stages read."""

    plan: IngestPlan
    extras: Extras
    source: Source | None
    """None: there is nothing to read."""
    read: PostRead
    splits: Splits
    size: int
    """Size of the input in bytes, including the history if it is read as a whole."""
    way: Way

    @property
    def is_task(self) -> bool:
        return is_one_task(self.way, self.size, self.splits)

    @property
    def because(self) -> str:
        """Why its stages run where they run."""
        if self.way.usage.way == "process":
            return SMALL
        return ONE_TASK if self.is_task else LARGE


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """Result of a Batch of posts; nothing is committed yet."""

    plan: IngestPlan
    """What the plans of the posts have in common; the first block follows its head."""
    blocks: list[HashedBlock]
    state: ChainState
    """State of the chain, the new blocks included."""
    slices: Sequence[Written]
    outcomes: list[PostOutcome]
    receipts: list[IngestReceipt]
    """`outcomes` and `receipts` have one entry for each post."""


def run_ingest(
    dataset: Dataset,
    payload: IngestPayload,
    context: WorkerContext,
    *,
    now: Instant,
) -> IngestReceipt:
    """Ingest one upload at the time `now`; for posts submitted as jobs see `claim.py`.

    Raises:
        NodeError: the post, the source or the dataset's state does not allow it.
        RefConflict: other writers committed first too often, or the head is not the expected one.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-", dir=context.scratch) as folder:
        scratch = Path(folder)
        path = local_object(dataset, upload_of(dataset.id, payload), scratch / "upload")
        for attempt in range(1, context.commit_attempts + 1):
            state = dataset.state()
            ahead_s = context.ingest.watermark_ahead_s
            plan = plan_ingest(state, payload, now=now, ahead_s=ahead_s)
            extras = push_extras(plan, payload, context.ingest.max_rejected_rows)
            post = prepare_post(dataset, plan, path, context, scratch, extras)
            batch = write_post(dataset, state, post, context, scratch)
            try:
                if not payload.dry_run:
                    commit(dataset, batch, context)
                return batch.receipts[0]
            except RefConflict:
                if attempt == context.commit_attempts or payload.expected_head is not None:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def push_extras(plan: IngestPlan, payload: IngestPayload, max_rejected_rows: int) -> Extras:
    """Return the options of a push. It carries over the source's state, of which a push knows
    nothing."""
    limit, most = payload.max_vanish_percent, max_rejected_rows
    if payload.max_bad_rows is not None:
        most = min(most, payload.max_bad_rows)
    return Extras(
        source_state=plan.source_state,
        marks=plan.source_marks,
        max_vanish_percent=100 if limit is None else limit,
        max_bad_rows=None if payload.on_bad_rows == "fail" else most,
    )


def prepare_post(
    dataset: Dataset,
    plan: IngestPlan,
    content: Content,
    context: WorkerContext,
    scratch: Path,
    extras: Extras,
    table: PlainTables | None = None,
) -> PreparedPost:
    """Prepare a post in the driver: unpack, preprocess, cut into splits. The input is one file,
    or a table's files in the folder `content`.

    Raises:
        NodeError: the post, or its strategy, does not allow it.
    """
    options, most = context.ingest, extras.max_bad_rows
    source = source_of(plan, content, context, scratch, most, table)
    if plan.adds_columns and source is not None:
        plan, source = adding_columns(plan, source, options.limits, most)
    file_size = 0 if source is None else source.size

    def size_with(history: int) -> int:
        """Add the history if it is read as a whole, since it then has to fit into memory as
        well."""
        return file_size + bytes_of_all(plan.merge, history)

    def way_with(history: int) -> Way:
        return Here() if source is None else way_of(context, size_with(history))

    history = None
    if source is not None:
        history = history_of(dataset, plan, options.states, scratch, way_with)
    known = 0 if history is None else history.size
    way, size = way_with(known), size_with(known)
    split_read, splits = splits_of(source, plan, way, options.limits, most)
    passes = is_passing(plan, history)
    read = PostRead(
        plan=plan,
        split=split_read,
        cut=options.cut,
        history=history if way.in_process else lent(history, way),
        max_bad_rows=None if source is None or source.is_prepared else most,
        passes=passes,
        sorts=passes and (source is None or is_one_partition(source, splits)),
        is_alone=way.in_process or is_one_task(way, size, splits),
    )
    return PreparedPost(
        plan=plan,
        extras=extras,
        source=source,
        read=read,
        splits=splits,
        size=size,
        way=way,
    )


def batch_of(posts: Sequence[PreparedPost]) -> Batch:
    """Return the Batch to run. Only posts that share slices (`round.py`) may be more than one."""
    return Batch(
        posts=tuple(post.read for post in posts),
        splits=tuple(post.splits.splits for post in posts),
    )


def run_posts(posts: Sequence[PreparedPost], context: WorkerContext, scratch: Path) -> BatchRows:
    """Write the slices of posts that share them, using the way of the first. Raises the same errors
    as `run_batch`."""
    way = posts[0].way
    if posts[0].is_task:
        return run_batches(way, [posts], context)[0]

    def merges(rows: int) -> None:
        context.job_progress.passed(rows)
        context.job_progress.phase("merge")

    with reported(context.on_stages, lambda: way.usage) as ended:
        try:
            rows = run_batch(way, batch_of(posts), scratch / "slices", merges)
        finally:
            way.close()
        ended.append(_size_of(posts, rows))
    return rows


def run_batches(
    way: Way, batches: Sequence[Sequence[PreparedPost]], context: WorkerContext
) -> list[BatchRows]:
    """Run Batches of one Spark task each by one job. Raises `StageFailed`."""
    with reported(context.on_stages, lambda: way.usage) as ended:
        found = run_tasks(way, [batch_of(posts) for posts in batches])
        pairs = zip(batches, found, strict=True)
        ended += [_size_of(posts, rows) for posts, rows in pairs if rows.failure is None]
    return found


def _size_of(posts: Sequence[PreparedPost], rows: BatchRows) -> BatchSize:
    return BatchSize(
        rows=sum(each.rows + len(each.rejected or ()) for each in rows.posts),
        bytes=sum(post.size for post in posts),
    )


def write_post(
    dataset: Dataset,
    state: ChainState,
    post: PreparedPost,
    context: WorkerContext,
    scratch: Path,
) -> WrittenBatch:
    """Write a Batch of one post that was prepared on the head of `state`; its slices are files in
    `scratch`.

    Raises:
        NodeError: the post, or its strategy, does not allow it.
        StageFailed: Spark could not do its part.
    """
    rows = run_posts([post], context, scratch)
    for failure in (rows.failure, *(each.failure for each in rows.posts)):
        if failure is not None:
            raise failure.error()
    return write_batch(dataset, state, [post], rows, context)


def write_batch(
    dataset: Dataset,
    state: ChainState,
    posts: Sequence[PreparedPost],
    rows: BatchRows,
    context: WorkerContext,
) -> WrittenBatch:
    """Make blocks and receipts, on the head of `state`, for the posts without failures.

    The slices keep the rows in the order of the posts, so that every receipt has a separate
    interval.
    """
    plan = joint_plan([post.plan for post in posts])
    read = [each for each in rows.posts if each.failure is None]
    outcomes = [_outcome(post, each, rows, context) for post, each in zip(posts, read, strict=True)]
    events: list[MetadataEvent] = []
    if rows.schema is not None and (plan.schema is None or plan.schema != state.data_schema):
        found = plan.schema or from_arrow(rows.schema)
        if state.data_schema is None:
            found = with_units_of(found, plan.read.schema)
        events.append(SetDataSchema(schema=found))
    events += _grown_sources(state, plan)
    links = _links(dataset, plan, rows.slices, context.objects)
    events += data_events(plan, rows.slices, posts[0].extras, links=links)
    blocks, after = author(state, events, system_time=plan.system_time)
    return WrittenBatch(
        plan=plan,
        blocks=blocks,
        state=after,
        slices=rows.slices,
        outcomes=outcomes,
        receipts=receipts(plan, outcomes, rows.slices, blocks),
    )


def _grown_sources(state: ChainState, plan: IngestPlan) -> list[AddPushSource]:
    """Return the new definition of a source to which the batch adds columns."""
    source = state.push_sources.get(plan.source_name) if plan.adds_columns else None
    if source is None or source.read.schema == plan.read.schema:
        return []
    read = structs.replace(source.read, schema=plan.read.schema)
    return [structs.replace(source, read=read)]


def _outcome(
    post: PreparedPost, read: ReadPost, rows: BatchRows, context: WorkerContext
) -> PostOutcome:
    """Return the outcome of one post of a Batch. Raises if its strategy does not allow it."""
    check_vanished(post.plan, read.rows, rows.slices, post.extras.max_vanish_percent)
    is_alone = len(rows.posts) == 1
    done = operations(rows.slices) if is_alone else Counter({Operation.APPEND: read.rows})
    source, rejected, warnings, where = post.source, read.rejected, read.warnings, None
    if source is not None:
        where = ran(
            context,
            rows.usage,
            post.size,
            len(post.splits.splits),
            because=post.because,
            one_split_because=post.splits.whole_because,
            preprocessed_bytes=source.preprocessed_bytes,
        )
        rejected = source.rejected if source.is_prepared else rejected
        ahead = ahead_warnings(post.plan, read.ahead) if rows.slices else ()
        emptied = emptied_warnings(post.plan, read.rows, done)
        warnings = (*source.warnings, *warnings, *rows.warnings, *ahead, *emptied)
    return PostOutcome(
        rows_read=read.rows,
        done=done,
        rejected=rejected,
        warnings=warnings,
        ran=where,
    )


def commit(dataset: Dataset, batch: WrittenBatch, context: WorkerContext) -> None:
    """Upload the slices, then move the head once. Raises `RefConflict`."""
    if batch.blocks:
        put_slices(dataset, batch.slices, context.objects, context.ingest.upload_threads)
        back = all(only_retracts(each.done) for each in batch.outcomes)
        dataset.commit(batch.blocks, expected=batch.plan.head, beyond_quota=back)
        committed(dataset, batch, context)


def committed(dataset: Dataset, batch: WrittenBatch, context: WorkerContext) -> None:
    """Let the merge state take up a Batch that was committed, if the worker does that ahead."""
    plan, state, options = batch.plan, batch.state, context.ingest
    size = sum(each.data.size for each in batch.slices if each.data is not None)
    if size < AHEAD_BYTES or options.ahead is None or state.head is None:
        return
    if reads_history(plan.merge):
        after = replace(plan, head=state.head, schema=state.data_schema, has_history=True)
        step = partial(bring_up_to_date, dataset, after, options.states)
        options.ahead.follow(dataset, state.head, step)


def put_slices(
    dataset: Dataset, slices: Sequence[Written], objects: ObjectStore, threads: int
) -> None:
    """Put slices into the store in parallel; return when all are there."""

    def put(written: Written) -> None:
        if written.data is not None:
            key = ObjectKey(dataset.id, ObjectKind.DATA, written.data.physical_hash)
            put_slice(objects, key, written)

    if len(slices) <= 1:
        for written in slices:
            put(written)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="uploads") as pool:
        for _ in pool.map(put, slices):
            pass


def _links(
    dataset: Dataset, plan: IngestPlan, slices: Sequence[Written], objects: ObjectStore
) -> list[Attributes | None]:
    """Return for each slice the summary of its links. Raises `InvalidValue`,
    `DanglingReference`."""
    columns = link_columns(plan.schema)
    if not columns:
        return [None] * len(slices)
    found = [links_in(written.source(), columns) for written in readable(slices)]
    return [summary_of(check_links(objects, dataset.id, links)) for links in found]
