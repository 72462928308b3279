"""Posts of one claim, to one or more datasets: written as Batches, committed together.

Each post has a separate receipt, and a bad post fails alone. One transaction commits all datasets,
each with its own slices, blocks and compare-and-swap, and also ends the jobs: work that is repeated
after a crash was therefore never committed. If another writer committed to a dataset first, its
posts are planned again from the new head.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.commits import commit_all
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.logs import span
from odf_storage.stores.index.sql_sizes import QUOTA_EXCEEDED
from odf_storage.stores.ports.errors import DatasetNotFound, LeaseLost, RefConflict
from odf_storage.stores.ports.values import Failed, Job, JobEnd, Succeeded

from ...runtime.command import LOGGER, line
from ..work.context import WorkerContext
from .round import Group, IngestTask, Ready, Round
from .run import committed

TURN_S = 2.0
"""Seconds after which posts that have not begun return to the queue, so that other jobs have their
turn."""


def _dataset_of(post: IngestTask) -> DatasetId:
    if post.job.spec.dataset is None:
        raise AssertionError("unreachable: the job of a post names its dataset")
    return post.job.spec.dataset


class PostRun:
    """Processes the posts of a claim until they end.

    `failure` returns the outcome of a job with an error, or raises errors that must end the run.
    `is_over` returns whether the worker is stopping; posts that have not begun then return to the
    queue.
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

    def run(self, groups: Sequence[Sequence[IngestTask]]) -> Iterator[JobEnd]:
        """Process groups of posts, one group for each dataset; yield the ends as they happen.

        Raises errors that do not concern a single dataset.
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
        """Commit as many posts as are ready in time, in one transaction."""
        with tempfile.TemporaryDirectory(prefix="ingest-", dir=self._context.scratch) as folder:
            begun, unknown = self._begin(groups, Path(folder))
            for group, reason in unknown:
                yield from self._fail(group, reason)
            Round(self._context, begun, self._end_with, self._is_over).run()
            moving = [ready for ready in begun if ready.blocks]
            refused = commit_all(self._stores, [ready.commit() for ready in moving])
        for ready, error in zip(moving, refused, strict=True):
            yield from self._committed(ready) if error is None else self._refused(ready, error)
        for ready in begun:
            if not ready.blocks:
                yield from self._finished(ready.group, ready.ends)

    def _begin(
        self, groups: Sequence[Group], folder: Path
    ) -> tuple[list[Ready], list[tuple[Group, NodeError]]]:
        """Read the states of the datasets from the index, in one lookup, or the reason why that
        failed."""
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
                    left = deque(group.waiting)
                    begun.append(Ready(group, left, folder, dataset, state, heads[its]))
        return begun, unknown

    def _committed(self, ready: Ready) -> Iterator[JobEnd]:
        ready.group.conflicts = 0
        for end in ready.ends:
            ready.group.drop(end.job)
            yield end
        if ready.newest is not None:
            committed(ready.dataset, ready.newest, self._context)

    def _refused(self, ready: Ready, error: NodeError) -> Iterator[JobEnd]:
        """Handle a dataset of which nothing was committed: its posts are planned again, except
        posts that lost their lease. After too many lost races, the first post fails."""
        group = ready.group
        if isinstance(error, LeaseLost):
            group.drop(error.job)
        elif error.code == QUOTA_EXCEEDED and len(ready.ends) > 1:
            group.one_by_one = True  # some of them may fit
        elif error.code == QUOTA_EXCEEDED:
            of_job = {post.job.id: post for post in group.waiting}
            ends = [self._failed(of_job[end.job], error) for end in ready.ends]
            yield from self._finished(group, ends)
        elif isinstance(error, RefConflict):
            group.conflicts += 1
            if group.conflicts >= self._context.commit_attempts:
                group.conflicts = 0
                yield from self._finished(group, [self._failed(group.waiting[0], error)])
        else:
            yield from self._fail(group, error)

    def _fail(self, group: Group, error: NodeError) -> Iterator[JobEnd]:
        """End all posts of the dataset with the error."""
        yield from self._finished(group, [self._failed(post, error) for post in group.waiting])

    def _finished(self, group: Group, ends: Sequence[JobEnd]) -> Iterator[JobEnd]:
        """End jobs that committed nothing."""
        for end in ends:
            group.drop(end.job)
            try:
                self._stores.jobs.finish(end.job, end.worker, end.outcome)
            except LeaseLost:
                LOGGER.warning(line("outcome of a job that was lost", job=end.job))
            else:
                yield end

    def _failed(self, post: IngestTask, error: Exception) -> JobEnd:
        return self._end_with(post, error)

    def _end_with(self, post: IngestTask, came: Succeeded | Exception) -> JobEnd:
        """Return the end of a post with its result or its error. Raises errors that must end the
        run."""
        outcome = self._failure(post.job, came) if isinstance(came, Exception) else came
        return JobEnd(post.job.id, self._worker, outcome)
