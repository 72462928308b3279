"""A round of a claim: prepares posts for a given time, each planned on the previous result.

A round consists of steps. Each step takes the next Batch of every dataset. Batches that fit into
one Spark task run together in one Spark job, any other Batch runs separately. A round commits
nothing.

A post: the rows of one job, and how to read them.

Small posts that are only appended share slices with other waiting posts: the cost of files, hashes
and blocks is then per batch rather than per post, for writers and for all readers.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.metadata.sources import MergeStrategyAppend
from odf_protocol.multihash import Multihash
from odf_protocol.references import link_columns
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import (
    DryRunReceipt,
    IngestPayload,
    IngestReceipt,
    upload_of,
)
from odf_storage.datasets.node.commits import Commit
from odf_storage.runtime.logs import part_of
from odf_storage.stores.ports.values import Job, JobEnd, Succeeded

from ...merge.strategies import reads_history
from ...plan.ingest import IngestPlan, plan_ingest
from ...readers.values.rejected import Rejected
from ...runtime.command import LOGGER, line
from ...runtime.progress import Content, Enclosed, JobLost, JobProgress
from ...stages.batch import BatchRows
from ..work.context import WorkerContext, local_object
from .outcome import only_retracts
from .run import (
    PreparedPost,
    WrittenBatch,
    prepare_post,
    push_extras,
    put_slices,
    run_batches,
    run_posts,
    write_batch,
)
from .ways import way_of_tasks

SHARED_BYTES = 1 << 20
"""Limit of the unpacked bytes of posts that share slices: they are one partition, and few rows have
to wait for it."""


@dataclass(slots=True, kw_only=True)
class IngestTask:
    """The post of a job. The time of its blocks is the job's submission, no matter when it runs."""

    job: Job
    payload: IngestPayload
    job_progress: JobProgress = field(default_factory=JobProgress)


def shares_slices(post: IngestTask, plan: IngestPlan) -> bool:
    """Whether a post only adds rows, and its body is small enough to be stored in the job. The
    unpacked rows may still be large (`SHARED_BYTES`)."""
    return (
        post.job.spec.body is not None
        and not post.payload.dry_run
        and post.payload.expected_head is None
        and isinstance(plan.merge, MergeStrategyAppend)
        and plan.preprocess is None
        and plan.schema is not None
        and not plan.adds_columns
        and not link_columns(plan.schema)
    )


def prepare(
    dataset: Dataset, post: IngestTask, plan: IngestPlan, context: WorkerContext, scratch: Path
) -> PreparedPost:
    """Prepare a post for the stages; `scratch` is the path of a folder for it, which does not exist
    yet.

    Raises:
        NodeError: the post cannot be read.
        JobLost: the lease of the job was lost.
    """
    post.job_progress.phase("read")
    own = replace(context, job_progress=post.job_progress)
    extras = push_extras(plan, post.payload, context.ingest.max_rejected_rows)
    content: Content
    if post.job.spec.body is None:
        content = local_object(dataset, upload_of(dataset.id, post.payload), scratch / "upload")
    else:
        content = Enclosed(post.job.spec.body)
    return prepare_post(dataset, plan, content, own, scratch, extras)


T = TypeVar("T")
EndWith = Callable[[IngestTask, Succeeded | Exception], JobEnd]
"""Makes the end of a post from its result or its error; raises errors that must end all work."""

ROUND_S = 1.0
"""Seconds after which a round ends and its posts are committed, even if more are waiting."""


@dataclass(slots=True)
class Group:
    """Posts of one dataset that have not ended, in their order."""

    dataset: DatasetId
    waiting: list[IngestTask]
    trace: str | None = None
    conflicts: int = 0
    """How often in a row another writer committed first."""
    one_by_one: bool = False
    """Whether each post is committed alone, since all together did not fit into a quota."""

    def drop(self, job: str) -> None:
        """Remove a job that has ended, or whose lease is lost."""
        self.waiting = [post for post in self.waiting if post.job.id != job]


@dataclass(slots=True)
class PreparedBatch:
    """A prepared Batch: its posts, and the plan of each."""

    posts: list[IngestTask] = field(default_factory=list)
    prepared: list[PreparedPost] = field(default_factory=list)

    @property
    def is_task(self) -> bool:
        return self.prepared[0].is_task

    def takes(self, other: PreparedPost) -> bool:
        """Whether a post that shares slices may join the Batch."""
        if not self.prepared:
            return True
        size = sum(each.size for each in (*self.prepared, other))
        return size <= SHARED_BYTES and other.is_task == self.is_task


@dataclass(slots=True)
class Ready:
    """Result of a round for the posts of a dataset, beginning with the first waiting post."""

    group: Group
    left: deque[IngestTask]
    """Posts that the round has not processed yet."""
    folder: Path
    """Directory of the round; each user creates an entry with a unique name in it."""
    dataset: Dataset
    state: ChainState
    """State of the chain, the new blocks included."""
    head: Multihash
    """Hash of the block that the new blocks follow."""
    ends: list[JobEnd] = field(default_factory=list)
    blocks: list[HashedBlock] = field(default_factory=list)
    slices: list[tuple[Multihash, bytes]] = field(default_factory=list)
    """Slices that are in memory; all others have been uploaded."""
    newest: WrittenBatch | None = None
    """The newest Batch."""
    only_retracts: bool = True
    """Whether the new blocks do nothing but take rows back."""

    def commit(self) -> Commit:
        return Commit(
            dataset=self.dataset,
            blocks=self.blocks,
            expected=self.head,
            ended=self.ends,
            slices=self.slices,
            beyond_quota=self.only_retracts,
        )


class Round:
    """Processes posts of several datasets up to their commits (`Ready`)."""

    def __init__(
        self,
        context: WorkerContext,
        begun: Sequence[Ready],
        end_with: EndWith,
        is_over: Callable[[], bool],
    ) -> None:
        self._context, self._begun, self._end_with = context, begun, end_with
        self._is_over, self._began = is_over, time.monotonic()

    def run(self) -> None:
        while self._step() and not self._is_late():
            pass

    def _is_late(self) -> bool:
        return time.monotonic() - self._began > ROUND_S or self._is_over()

    def _step(self) -> bool:
        """Process the next Batch of each dataset; return whether any dataset had one."""
        tasks: list[tuple[Ready, PreparedBatch]] = []
        found = False
        for ready in (each for each in self._begun if each.left):
            if found and self._is_late():
                break
            with _part_of(ready, ready.left[0]):
                if not (batch := self._next(ready)).posts:
                    continue
                found = True
                if batch.is_task:
                    tasks.append((ready, batch))
                else:
                    self._run(ready, batch)
        self._run_tasks(tasks)
        return found

    def _next(self, ready: Ready) -> PreparedBatch:
        """Return the next posts of a dataset, planned on its new blocks; an empty Batch if there
        are none.

        Small posts that are appended share a Batch, any other post is a Batch alone.
        """
        batch = PreparedBatch()
        while ready.left:
            if ready.group.one_by_one and ready.ends:
                ready.left.clear()
                break
            post = ready.left[0]
            if (plan := self._planned(ready, post)) is None:
                ready.left.popleft()
                continue
            shares = shares_slices(post, plan)
            if not shares and batch.posts:
                break
            if ready.blocks and reads_history(plan.merge):
                ready.left.clear()  # commit before comparing with these rows
                break
            ready.left.popleft()
            scratch = ready.folder / secrets.token_hex(8)
            step = partial(prepare, ready.dataset, post, plan, self._context, scratch)
            if (prepared := self._tried(ready, [post], step)) is None:
                continue
            shares = shares and not ready.group.one_by_one
            if not batch.takes(prepared):
                ready.left.appendleft(post)
                break
            batch.posts.append(post)
            batch.prepared.append(prepared)
            if not shares:
                break
        return batch

    def _planned(self, ready: Ready, post: IngestTask) -> IngestPlan | None:
        step = partial(
            plan_ingest,
            ready.state,
            post.payload,
            now=post.job.submitted_at,
            ahead_s=self._context.ingest.watermark_ahead_s,
        )
        return self._tried(ready, [post], step)

    def _run(self, ready: Ready, batch: PreparedBatch) -> None:
        """Run a Batch separately."""
        step = partial(self._rows, batch, ready.folder / secrets.token_hex(8))
        if (rows := self._tried(ready, batch.posts, step)) is not None:
            self._write(ready, batch, rows)

    def _rows(self, batch: PreparedBatch, folder: Path) -> BatchRows:
        if batch.is_task:
            return self._rows_of_tasks([batch])[0]
        context = self._context
        if len(batch.posts) == 1:  # several posts go on if one is lost
            context = replace(context, job_progress=batch.posts[0].job_progress)
        return run_posts(batch.prepared, context, folder)

    def _rows_of_tasks(self, batches: Sequence[PreparedBatch]) -> Sequence[BatchRows]:
        jobs = [post.job_progress for batch in batches for post in batch.posts]
        way = way_of_tasks(self._context, jobs)
        return run_batches(way, [each.prepared for each in batches], self._context)

    def _run_tasks(self, tasks: Sequence[tuple[Ready, PreparedBatch]]) -> None:
        """Run Batches of one Spark task each by one job. If that fails, run each separately: one of
        them may crash every process that runs it."""
        found: Sequence[BatchRows | None] = [None] * len(tasks)
        if len(tasks) > 1:
            try:
                found = self._rows_of_tasks([batch for _, batch in tasks])
            except NodeError as error:
                LOGGER.warning(line("datasets are worked on one by one", reason=error.message))
        for (ready, batch), rows in zip(tasks, found, strict=True):
            with _part_of(ready, batch.posts[0]):
                if rows is None:
                    self._run(ready, batch)
                else:
                    self._write(ready, batch, rows)

    def _write(self, ready: Ready, batch: PreparedBatch, rows: BatchRows) -> None:
        """Add the ends of the posts of a Batch, according to its rows."""
        if rows.failure is not None:
            error = rows.failure.error()
            ready.ends += [self._end_with(post, error) for post in batch.posts]
            return
        good = PreparedBatch()
        for post, prepared, read in zip(batch.posts, batch.prepared, rows.posts, strict=True):
            if read.failure is not None:
                ready.ends.append(self._end_with(post, read.failure.error()))
            else:
                good.posts.append(post)
                good.prepared.append(prepared)
        step = partial(self._written, ready, good, rows)
        if not good.posts or (written := self._tried(ready, good.posts, step)) is None:
            return
        is_dry = good.posts[0].payload.dry_run
        outcomes = zip(good.posts, written.outcomes, written.receipts, strict=True)
        for post, outcome, receipt in outcomes:
            answer = _dry(receipt, written.state) if is_dry else receipt
            ready.ends.append(self._end_with(post, _succeeded(post, outcome.rejected, answer)))
        if written.blocks and not is_dry:
            ready.state = written.state
            ready.newest = written
            ready.only_retracts &= all(only_retracts(each.done) for each in written.outcomes)
            ready.blocks += written.blocks
            ready.slices += [
                (each.data.physical_hash, each.content.to_pybytes())
                for each in written.slices
                if each.data is not None and each.content is not None
            ]

    def _written(self, ready: Ready, batch: PreparedBatch, rows: BatchRows) -> WrittenBatch:
        """Write a Batch and upload its slices, unless they are in memory."""
        written = write_batch(ready.dataset, ready.state, batch.prepared, rows, self._context)
        if not batch.posts[0].payload.dry_run:
            large = [each for each in written.slices if each.content is None]
            threads = self._context.ingest.upload_threads
            put_slices(ready.dataset, large, self._context.objects, threads)
        for post in batch.posts:
            with suppress(JobLost):  # the commit reports it
                post.job_progress.phase("commit")
        return written

    def _tried(self, ready: Ready, posts: Sequence[IngestTask], step: Callable[[], T]) -> T | None:
        """Return the result of the step. If it fails, return None and end these posts, but no
        others."""
        try:
            return step()
        except JobLost:
            for post in posts:
                ready.group.drop(post.job.id)
        except Exception as error:
            ready.ends += [self._end_with(post, error) for post in posts]
        return None


def _part_of(ready: Ready, post: IngestTask) -> AbstractContextManager[None]:
    return part_of(ready.group.trace, dataset=str(ready.dataset.id), job=post.job.id)


def _dry(receipt: IngestReceipt, state: ChainState) -> DryRunReceipt:
    schema = None if state.data_schema is None else to_data(state.data_schema)
    return DryRunReceipt(**structs.asdict(receipt), schema=schema)


def _succeeded(post: IngestTask, rejected: Rejected | None, receipt: IngestReceipt) -> Succeeded:
    if receipt.rows_rejected:
        receipt = structs.replace(receipt, rejected_job=str(post.job.id))
    return Succeeded(ingest_job.to_json(receipt), None if rejected is None else rejected.document())
