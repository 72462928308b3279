"""Posts of one claim, to one or more datasets: read, written as batches, committed together.

Each post keeps its own receipt, and a bad one fails alone. All datasets are committed by one
transaction, each with its own slices, blocks and compare-and-swap, and in the same transaction
the jobs end: what is repeated after a crash has not been committed. Where another writer was
first, the posts of that dataset are planned again from the new head.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.codec.manifests import to_data
from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.datasets.job_payloads.ingest_job import DryRunReceipt, IngestReceipt
from odf_node.storage.datasets.node.commits import Commit, commit_all
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.runtime.context import part_of
from odf_node.storage.runtime.tracing import span
from odf_node.storage.stores.ports.errors import DatasetNotFound, LeaseLost, RefConflict
from odf_node.storage.stores.ports.values import Failed, Job, JobEnd, JobOutcome, Succeeded

from ...merge.table import reads_history
from ...plan.ingest import IngestPlan, plan_ingest
from ...runtime.log import LOGGER, line
from ...runtime.progress import JobLost
from ..work.context import WorkerContext
from .post import Post, read, shares_slices
from .run import ReadPost, WrittenBatch, put_slices, write_batch

T = TypeVar("T")

ROUND_S = 1.0
"""Seconds after which posts that are ready are committed, though more wait."""
TURN_S = 2.0
"""Seconds after which posts that are not begun go back to the queue: others have their turn."""


@dataclass(slots=True)
class Group:
    """Posts of one dataset that have not ended, in their order."""

    dataset: DatasetId
    waiting: list[Post]
    trace: str | None = None
    conflicts: int = 0
    """How often in a row another writer was first."""

    def drop(self, job: str) -> None:
        """The job has ended, or is not ours any more."""
        self.waiting = [post for post in self.waiting if post.job.id != job]


def _dataset_of(post: Post) -> DatasetId:
    if post.job.spec.dataset is None:
        raise AssertionError("unreachable: the job of a post names its dataset")
    return post.job.spec.dataset


@dataclass(slots=True)
class Ready:
    """What a round made of the posts of a dataset, from the first that waits on."""

    group: Group
    dataset: Dataset
    state: ChainState
    """With the blocks that are ready."""
    head: Multihash
    """Which the blocks continue."""
    ends: list[JobEnd] = field(default_factory=list)
    blocks: list[HashedBlock] = field(default_factory=list)
    slices: list[tuple[Multihash, bytes]] = field(default_factory=list)
    """Those that are in memory; the others have been put."""

    def commit(self) -> Commit:
        return Commit(
            dataset=self.dataset,
            blocks=self.blocks,
            expected=self.head,
            ended=self.ends,
            slices=self.slices,
        )


class PostRun:
    """Brings the posts of a claim to their end.

    `failure` gives the outcome of a job with an error, or raises what must end the run. `is_over`
    tells whether the worker is to end: posts that are not begun are given back then.
    """

    def __init__(
        self,
        stores: Stores,
        context: WorkerContext,
        *,
        worker: str,
        failure: Callable[[Job, Exception], Failed],
        give_back: Callable[[Job], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stores, self._context, self._worker = stores, context, worker
        self._failure, self._give_back, self._is_over = failure, give_back, is_over
        self._round_began = 0.0

    def run(self, groups: Sequence[Sequence[Post]]) -> Iterator[JobEnd]:
        """Groups of posts, one for each dataset; the ends, as they come.

        Raises what is not about one dataset.
        """
        begun = [Group(_dataset_of(posts[0]), list(posts)) for posts in groups if posts]
        with ExitStack() as spans:
            for group in begun:
                first = group.waiting[0].job.spec
                trace = spans.enter_context(span(f"job {first.kind}", "consumer", first.trace))
                group.trace = trace or first.trace
            yield from self._rounds(begun)

    def _rounds(self, groups: Sequence[Group]) -> Iterator[JobEnd]:
        began = time.monotonic()
        while groups := [group for group in groups if group.waiting]:
            yield from self._round(groups)
            if time.monotonic() - began > TURN_S or self._is_over():
                for post in (post for group in groups for post in group.waiting):
                    self._give_back(post.job)
                return

    def _round(self, groups: Sequence[Group]) -> Iterator[JobEnd]:
        """As many posts as are ready in time, by one transaction."""
        self._round_began = time.monotonic()
        begun, unknown = self._begin(groups)
        for group, reason in unknown:
            yield from self._fail(group, reason)
        with tempfile.TemporaryDirectory(prefix="ingest-", dir=self._context.scratch) as folder:
            for number, ready in enumerate(begun):
                if number and self._is_late():
                    begun = begun[:number]
                    break
                facts = {"dataset": str(ready.dataset.id), "job": ready.group.waiting[0].job.id}
                with part_of(ready.group.trace, **facts):
                    self._prepare(ready, Path(folder) / str(number))
            moving = [ready for ready in begun if ready.blocks]
            refused = commit_all(self._stores, [ready.commit() for ready in moving])
        for ready, error in zip(moving, refused, strict=True):
            yield from self._committed(ready) if error is None else self._refused(ready, error)
        for ready in begun:
            if not ready.blocks:
                yield from self._finished(ready.group, ready.ends)

    def _is_late(self) -> bool:
        return time.monotonic() - self._round_began > ROUND_S or self._is_over()

    def _begin(self, groups: Sequence[Group]) -> tuple[list[Ready], list[tuple[Group, NodeError]]]:
        """Where the datasets are, by one look at the index; or why that is not known."""
        begun: list[Ready] = []
        unknown: list[tuple[Group, NodeError]] = []
        wanted = [group.dataset for group in groups]
        with self._stores.reading() as reader:
            entries, heads = reader.registry.find_all(wanted), reader.refs.heads(wanted)
            for group in groups:
                its = group.dataset
                try:
                    if its not in entries or its not in heads:
                        raise DatasetNotFound(its)
                    state = reader.chain(its).state(heads[its])
                except NodeError as error:
                    unknown.append((group, error))
                else:
                    dataset = Dataset(entries[its], self._stores)
                    begun.append(Ready(group, dataset, state, heads[its]))
        return begun, unknown

    def _prepare(self, ready: Ready, folder: Path) -> None:
        """Posts are planned one on the other; small ones that are appended become a batch."""
        base, batch = ready.state, list[tuple[Post, ReadPost]]()
        for number, post in enumerate(list(ready.group.waiting)):
            if (ready.ends or batch) and self._is_late():
                break
            if (plan := self._planned(ready, post)) is None:
                continue
            if not (shares := shares_slices(post, plan)):
                self._write(ready, batch, folder)
                batch = []
                if ready.state is not base and reads_history(plan.merge):
                    break  # the rows it is compared with have to be committed
                if (plan := self._planned(ready, post)) is None:
                    continue
            scratch = folder / str(number)
            step = partial(read, ready.dataset, post, plan, self._context, scratch)
            if (found := self._tried(ready, [post], step)) is not None:
                batch.append((post, found))
            if not shares:
                self._write(ready, batch, scratch)
                batch = []
        self._write(ready, batch, folder)

    def _planned(self, ready: Ready, post: Post) -> IngestPlan | None:
        step = partial(plan_ingest, ready.state, post.payload, now=post.job.submitted_at)
        return self._tried(ready, [post], step)

    def _write(self, ready: Ready, batch: Sequence[tuple[Post, ReadPost]], folder: Path) -> None:
        """The slices of a batch, and the ends of its posts."""
        posts = [post for post, _ in batch]
        step = partial(self._written, ready, batch, folder)
        if not posts or (written := self._tried(ready, posts, step)) is None:
            return
        is_dry = posts[0].payload.dry_run
        for (post, found), receipt in zip(batch, written.receipts, strict=True):
            answer = _dry(receipt, written.state) if is_dry else receipt
            ready.ends.append(self._end(post.job, _succeeded(post, found, answer)))
        if written.blocks and not is_dry:
            ready.state = written.state
            ready.blocks += written.blocks
            ready.slices += [
                (each.data.physical_hash, each.content.to_pybytes())
                for each in written.slices
                if each.data is not None and each.content is not None
            ]

    def _written(
        self, ready: Ready, batch: Sequence[tuple[Post, ReadPost]], folder: Path
    ) -> WrittenBatch:
        """A batch whose slices are put, unless they are in memory."""
        found = [each for _, each in batch]
        written = write_batch(ready.dataset, ready.state, found, self._context, folder)
        if not batch[0][0].payload.dry_run:
            large = [each for each in written.slices if each.content is None]
            threads = self._context.ingest.cut.threads
            put_slices(ready.dataset, large, self._context.objects, threads)
        for post, _ in batch:
            with suppress(JobLost):  # the commit will tell
                post.job_progress.phase("commit")
        return written

    def _tried(self, ready: Ready, posts: Sequence[Post], step: Callable[[], T]) -> T | None:
        """What the step gives; None if it fails, which ends these posts and no others."""
        try:
            return step()
        except JobLost:
            for post in posts:
                ready.group.drop(post.job.id)
        except Exception as error:
            ready.ends += [self._failed(post, error) for post in posts]
        return None

    def _committed(self, ready: Ready) -> Iterator[JobEnd]:
        ready.group.conflicts = 0
        for end in ready.ends:
            ready.group.drop(end.job)
            yield end

    def _refused(self, ready: Ready, error: NodeError) -> Iterator[JobEnd]:
        """Nothing of the dataset was committed: its posts are planned again, but for those that
        have lost their lease, or have lost to other writers too often."""
        group = ready.group
        if isinstance(error, LeaseLost):
            group.drop(error.job)
        elif isinstance(error, RefConflict):
            group.conflicts += 1
            if group.conflicts >= self._context.commit_attempts:
                group.conflicts = 0
                yield from self._finished(group, [self._failed(group.waiting[0], error)])
        else:
            yield from self._fail(group, error)

    def _fail(self, group: Group, error: NodeError) -> Iterator[JobEnd]:
        """All posts of the dataset."""
        yield from self._finished(group, [self._failed(post, error) for post in group.waiting])

    def _finished(self, group: Group, ends: Sequence[JobEnd]) -> Iterator[JobEnd]:
        """Ends of jobs that committed nothing."""
        for end in ends:
            group.drop(end.job)
            try:
                self._stores.jobs.finish(end.job, end.worker, end.outcome)
            except LeaseLost:
                LOGGER.warning(line("outcome of a job that was lost", job=end.job))
            else:
                yield end

    def _failed(self, post: Post, error: Exception) -> JobEnd:
        return self._end(post.job, self._failure(post.job, error))

    def _end(self, job: Job, outcome: JobOutcome) -> JobEnd:
        return JobEnd(job.id, self._worker, outcome)


def _dry(receipt: IngestReceipt, state: ChainState) -> DryRunReceipt:
    schema = None if state.data_schema is None else to_data(state.data_schema)
    return DryRunReceipt(**structs.asdict(receipt), schema=schema)


def _succeeded(post: Post, found: ReadPost, receipt: IngestReceipt) -> Succeeded:
    rejected = found.rejected
    if receipt.rows_rejected:
        receipt = structs.replace(receipt, rejected_job=str(post.job.id))
    return Succeeded(ingest_job.to_json(receipt), None if rejected is None else rejected.document())
