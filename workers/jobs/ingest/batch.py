"""A Batch: posts that become slices together, from their files to rows that are written.

All that is to be known of it is in the Batch, so that it may run anywhere: in the worker's process,
by stages whose partitions are spread over Spark, or, where it is one partition, all of it as one
task, beside those of other datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from ...merge.history import HistoryFiles
from ...partitions.failure import Failure
from ...partitions.here import Here
from ...partitions.port import Output, Way
from ...partitions.usage import Usage
from ...plan.ingest import IngestPlan
from ...readers.rejected import Rejected
from ...readers.splits import Split
from ...slices.write import SlicePlan, Written
from .pipeline import in_order, write
from .read_posts import PostRows, read
from .stages import PostRead

AfterRead = Callable[[int], None]
"""Is given the number of rows, once all are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Posts that were planned on one head; several only of those that share slices (`post.py`)."""

    posts: tuple[PostRead, ...]
    splits: tuple[tuple[Split, ...], ...]
    """Of each post; none of one that has nothing to be read."""
    history: HistoryFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPost:
    """What was read of a post. The rows of one with a failure are not in the slices."""

    rows: int = 0
    """Those that are good."""
    rejected: Rejected | None = None
    warnings: tuple[str, ...] = ()
    schema: pa.Schema | None = None
    """Of the slices; None: the post is empty and tells none."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows:
    """What came of a Batch, or why nothing did."""

    posts: tuple[ReadPost, ...] = ()
    slices: tuple[Written, ...] = ()
    warnings: tuple[str, ...] = ()
    """Of the merge."""
    usage: Usage = field(default_factory=Usage)
    failure: Failure | None = None

    @property
    def schema(self) -> pa.Schema | None:
        return next((each.schema for each in self.posts if each.schema is not None), None)


def run_batch(way: Way, batch: Batch, folder: Path, after_read: AfterRead) -> BatchRows:
    """The slices of a Batch, which lie in the folder unless they are small. A post that cannot be
    read fails alone.

    Raises:
        NodeError: what is wrong with the rows together.
        StageFailed: Spark could not do its part.
    """
    rows = read(way, batch.posts, batch.splits)
    posts = tuple(map(_read_post, rows.posts))
    found = BatchRows(posts=posts)
    if found.schema is None:
        rows.partitions.release()
        return replace(found, usage=way.usage)
    after_read(sum(each.rows for each in posts))
    ordered = in_order(way, batch.posts, rows, batch.history)
    plans = [each.plan for each, of in zip(batch.posts, posts, strict=True) if of.failure is None]
    planned = slice_plan(joint_plan(plans), found.schema)
    slices = write(way, ordered, planned, folder, batch.posts[0].cut)
    return replace(found, slices=tuple(slices), warnings=ordered.warnings, usage=way.usage)


def run_as_tasks(batches: Sequence[Batch]) -> Output:
    """All stages of Batches of one partition each, in the process of a task; slices go with what
    it tells. What is wrong with a Batch is a fact as well: others go on."""
    for batch in batches:
        with TemporaryDirectory(prefix="batch-") as folder:
            try:
                found = run_batch(Here(), batch, Path(folder), lambda _: None)
            except OSError:  # of the machine or the bucket, and not of the Batch
                raise
            except Exception as error:
                found = BatchRows(failure=Failure.of(error))
            slices = tuple(map(_in_memory, found.slices))
        yield replace(found, slices=slices)


def joint_plan(plans: Sequence[IngestPlan]) -> IngestPlan:
    """The plan of posts that become slices together: the newest submission is the time of all."""
    return replace(plans[0], system_time=max(each.system_time for each in plans))


def slice_plan(plan: IngestPlan, schema: pa.Schema) -> SlicePlan:
    """What the rows of a batch have in common once they are written."""
    return SlicePlan(
        schema=schema,
        vocab=plan.vocab,
        start=plan.next_offset,
        system_time=plan.system_time,
        source_event_time=plan.source_event_time,
    )


def _read_post(rows: PostRows) -> ReadPost:
    if rows.failure is not None:
        return ReadPost(failure=rows.failure)
    return ReadPost(
        rows=rows.rows, rejected=rows.rejected, warnings=rows.warnings, schema=rows.schema
    )


def _in_memory(written: Written) -> Written:
    if written.data is None or written.content is not None:
        return written
    return replace(written, content=pa.py_buffer(written.path.read_bytes()))
