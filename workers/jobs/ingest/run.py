"""The steps of an ingest: read, preprocess, merge, write, commit.

Posts become slices as a Batch, most often of one. Everything visible happens in the commit, which
moves the head by compare-and-swap. A writer that loses that race plans again from the new head.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from odf_node.protocol.arrow_schema import from_arrow
from odf_node.protocol.attributes import Attributes
from odf_node.protocol.chain.author import author
from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.instant import Instant
from odf_node.protocol.linked import link_columns, summary_of
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import MetadataEvent, SetDataSchema
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.contents.linked import check_links, links_in
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads.ingest_job import (
    IngestPayload,
    IngestReceipt,
    RanReceipt,
)
from odf_node.storage.stores.ports import ObjectStore
from odf_node.storage.stores.ports.errors import RefConflict
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind

from ...merge.table import bytes_of_all
from ...partitions.here import Here
from ...partitions.port import Way
from ...plan.ingest import IngestPlan, plan_ingest
from ...readers.rejected import Rejected
from ...readers.table_files import TableFiles
from ...slices.columns import Operation
from ...slices.write import SlicePlan, Written, operations
from ..work.context import WorkerContext
from ..work.slice_files import local_file
from .history import history_of
from .outcome import Extras, PostOutcome, data_events, receipts
from .pipeline import OrderedRows, in_order, is_passing, joined, read, write
from .source import is_one_partition, source_of, splits_of
from .stages import PostRead
from .vanished import check_vanished
from .ways import ran, way_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPost:
    """What was read of a post that is planned on a head."""

    plan: IngestPlan
    extras: Extras
    rows_read: int = 0
    """Those that are good."""
    rejected: Rejected | None = None
    warnings: tuple[str, ...] = ()
    schema: pa.Schema | None = None
    """Of the slices; None: the post is empty and tells none."""
    rows: OrderedRows | None = None
    """Merged and in their order, without offsets and system time; None: nothing changes."""
    way: Way = field(default_factory=Here)
    ran: Callable[[], RanReceipt | None] = lambda: None
    """Where all of that ran, to be asked once its slices are written."""


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
    table: TableFiles | None = None,
) -> ReadPost:
    """A post as far as its rows in their order: of the file at the path, or of a table's below it.

    Raises:
        NodeError: the post, or its strategy, does not allow it.
        StageFailed: Spark could not do its part.
    """
    options, most = context.ingest, extras.max_bad_rows
    source = source_of(plan, path, context, scratch, most, table)
    if source is None:
        return ReadPost(plan=plan, extras=extras)
    history = history_of(dataset, plan, options.states, scratch)
    # A history that is read as a whole has to fit into memory as well.
    size = source.size + bytes_of_all(plan.merge, history)
    way = way_of(context, size)
    split_read, splits = splits_of(source, way, options.limits)
    passes = is_passing(plan, history)
    post = PostRead(
        plan=plan,
        split=split_read,
        cut=options.cut,
        max_bad_rows=None if source.is_prepared else most,
        passes=passes,
        sorts=passes and is_one_partition(source, splits),
    )
    with ExitStack() as failing:
        failing.callback(way.close)
        found = read(way, post, splits.splits)
        if found is None:
            return ReadPost(plan=plan, extras=extras, rejected=source.rejected)
        context.job_progress.passed(found.rows)
        context.job_progress.phase("merge")
        rows = in_order(way, post, found, history)
        failing.pop_all()
    return ReadPost(
        plan=plan,
        extras=extras,
        rows_read=found.rows,
        rejected=source.rejected if source.is_prepared else found.rejected,
        warnings=(*source.warnings, *found.warnings, *rows.warnings),
        schema=found.schema,
        rows=rows,
        way=way,
        ran=partial(ran, context, way, size, len(splits.splits), splits.whole_because),
    )


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
    schema = next((post.schema for post in posts if post.schema is not None), None)
    slices: list[Written] = []
    if schema is not None:
        way = next(post.way for post in posts if post.rows is not None)
        rows = joined(way, [post.rows for post in posts if post.rows is not None])
        folder = scratch / "slices"
        with ExitStack() as done:
            for post in posts:
                done.callback(post.way.close)
            slices = write(way, rows, slice_plan(plan, schema), folder, context.ingest.cut)
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
    check_vanished(post.plan, post.rows_read, slices, post.extras.max_vanish_percent)
    done = operations(slices) if alone else Counter({Operation.APPEND: post.rows_read})
    return PostOutcome(
        rows_read=post.rows_read,
        done=done,
        rejected=post.rejected,
        warnings=post.warnings,
        ran=post.ran(),
    )


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
