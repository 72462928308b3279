"""A Batch: posts that are written to the same slices, from their files to written rows.

A Batch contains everything needed to run it, so that it may run anywhere: in the worker's process,
in stages whose partitions are spread over Spark, or, if it is a single partition, entirely in one
Spark task, beside Batches of other datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from ..partitions.messages import Failure
from ..partitions.port import Here, Output, StageUsage, Way
from ..plan.ingest import IngestPlan
from ..readers.formats.splits import ReaderSplit
from ..readers.values.rejected import Rejected
from ..slices.write import SlicePlan, Written
from .facts import NONE_AHEAD, Ahead
from .pipeline import in_order, write
from .read import PostRead
from .read_posts import PostRows, read

AfterRead = Callable[[int], None]
"""Receives the number of rows after all have been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Posts that were planned on one head; more than one only if they share slices (`round.py`)."""

    posts: tuple[PostRead, ...]
    splits: tuple[tuple[ReaderSplit, ...], ...]
    """Splits of each post; empty for a post without input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPost:
    """Result of reading a post. If it has a failure, its rows are not in the slices."""

    rows: int = 0
    """Number of good rows."""
    rejected: Rejected | None = None
    warnings: tuple[str, ...] = ()
    schema: pa.Schema | None = None
    """Schema of the slices; None if the post is empty, so that no schema is known."""
    ahead: Ahead = NONE_AHEAD
    """Rows whose event time is too far ahead of the clock to move the watermark."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows:
    """Result of a Batch, or the reason why it failed."""

    posts: tuple[ReadPost, ...] = ()
    slices: tuple[Written, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings of the merge."""
    usage: StageUsage = field(default_factory=StageUsage)
    failure: Failure | None = None

    @property
    def schema(self) -> pa.Schema | None:
        return next((each.schema for each in self.posts if each.schema is not None), None)


def run_batch(way: Way, batch: Batch, folder: Path, after_read: AfterRead) -> BatchRows:
    """Write the slices of a Batch, as files in the folder unless they are small. A post that cannot
    be read fails alone.

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
    ordered = in_order(way, batch.posts, rows)
    plans = [each.plan for each, of in zip(batch.posts, posts, strict=True) if of.failure is None]
    planned = slice_plan(joint_plan(plans), found.schema)
    slices = write(way, ordered, planned, folder, batch.posts[0].cut)
    return replace(found, slices=tuple(slices), warnings=ordered.warnings, usage=way.usage)


def run_as_tasks(batches: Sequence[Batch]) -> Output:
    """Run all stages of Batches of one partition each, in the process of a task; each result
    includes the slices. An error of a Batch is returned as a fact, so that the others continue."""
    for batch in batches:
        with TemporaryDirectory(prefix="batch-") as folder:
            try:
                found = run_batch(Here(), batch, Path(folder), lambda _: None)
            except OSError:  # an error of the machine or the bucket, not of the Batch
                raise
            except Exception as error:
                found = BatchRows(failure=Failure.of(error))
            slices = tuple(map(_in_memory, found.slices))
        yield replace(found, slices=slices)


def joint_plan(plans: Sequence[IngestPlan]) -> IngestPlan:
    """Return the plan of posts that share slices, with the system time of the newest submission."""
    first, *others = plans
    if not others:
        return first
    return replace(
        first,
        system_time=max(each.system_time for each in plans),
        latest=max(each.latest for each in plans),
    )


def slice_plan(plan: IngestPlan, schema: pa.Schema) -> SlicePlan:
    """Return the properties that the rows of a batch share when they are written."""
    return SlicePlan(
        schema=schema,
        vocab=plan.vocab,
        start=plan.next_offset,
        system_time=plan.system_time,
        source_event_time=plan.source_event_time,
        latest=plan.latest,
    )


def _read_post(rows: PostRows) -> ReadPost:
    if rows.failure is not None:
        return ReadPost(failure=rows.failure)
    return ReadPost(
        rows=rows.rows,
        rejected=rows.rejected,
        warnings=rows.warnings,
        schema=rows.schema,
        ahead=rows.ahead,
    )


def _in_memory(written: Written) -> Written:
    if written.data is None or written.content is not None:
        return written
    return replace(written, content=pa.py_buffer(written.path.read_bytes()))
