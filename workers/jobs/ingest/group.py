"""Pushed batches of one dataset that wait together: planned one on the other, committed at once.

Each batch keeps its own blocks and its own receipt; a bad one fails alone. The head moves once
for all of them, and in the same transaction their jobs end: what is repeated after a crash has
not been committed. When another writer was first, they are planned again from the new head.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from odf_node.protocol.chain.author import author
from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.codec.manifests import to_data
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.datasets.job_payloads.ingest_job import (
    DryRunReceipt,
    IngestPayload,
    IngestReceipt,
)
from odf_node.storage.stores.ports.errors import LeaseLost, RefConflict
from odf_node.storage.stores.ports.values import (
    Failed,
    Job,
    JobEnd,
    JobId,
    JobOutcome,
    ObjectKind,
    Succeeded,
)

from ...plan.ingest import IngestPlan, plan_ingest
from ...readers.rejected import Rejected
from ...runtime.progress import JobLost, JobProgress
from ...slices.write import Written
from ..work.context import WorkerContext
from ..work.slice_files import local_file
from .joined import Part, join, may_join, part_of, receipts_of
from .lines import Body, ReadTogether
from .merged import looks_back
from .outcome import receipt
from .run import prepare, push_extras, put_slices

TOGETHER_S = 1.0
"""Seconds after which batches that are ready are committed, though more wait."""
TURN_S = 2.0
"""Seconds after which batches that are not begun go back to the queue: others have their turn."""

Failure = Callable[[Job, Exception], Failed]
"""What a job is told about an error. Raises what must end the worker."""


@dataclass(slots=True, kw_only=True)
class Batch:
    """A job of the group. Its submission is the time of its blocks, no matter when it runs."""

    job: Job
    payload: IngestPayload
    job_progress: JobProgress = field(default_factory=JobProgress)


@dataclass(slots=True)
class Ready:
    """Batches that are planned, from the first that waits on, and what they come to."""

    ends: list[JobEnd] = field(default_factory=list)
    joined: list[tuple[Batch, Part]] = field(default_factory=list)
    """Those that are planned on the same head, and not yet at their end."""
    blocks: list[HashedBlock] = field(default_factory=list)
    slices: list[Written] = field(default_factory=list)

    def in_memory(self) -> list[tuple[Multihash, bytes]]:
        """Hash and bytes of the slices that are not on disk."""
        return [
            (each.data.physical_hash, each.content.to_pybytes())
            for each in self.slices
            if each.data is not None and each.content is not None
        ]


class IngestGroup:
    """One run of a group. `finish` gives a job its outcome where there is nothing to commit."""

    def __init__(
        self,
        dataset: Dataset,
        context: WorkerContext,
        *,
        worker: str,
        finish: Callable[[JobEnd], None],
        failure: Failure,
        give_back: Callable[[Job], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._dataset, self._context, self._worker = dataset, context, worker
        self._finish, self._failure = finish, failure
        self._give_back, self._is_over = give_back, is_over
        self._plans: dict[JobId, IngestPlan] = {}

    def run(self, batches: Sequence[Batch]) -> Iterator[JobEnd]:
        """Bring all batches to their end, in their order; the ends, as they come."""
        waiting, conflicts = list(batches), 0
        began = time.monotonic()
        while waiting:
            with tempfile.TemporaryDirectory(prefix="ingest-", dir=self._context.scratch) as folder:
                try:
                    ready = self._plan(waiting, Path(folder))
                    self._commit(ready, waiting)
                except RefConflict as conflict:
                    conflicts += 1
                    if conflicts < self._context.commit_attempts:
                        continue
                    ready = Ready([self._end(waiting[0], self._failure(waiting[0].job, conflict))])
                    self._commit(ready, waiting)
                except LeaseLost as lost:
                    waiting = [batch for batch in waiting if batch.job.id != lost.job]
                    continue
            conflicts = 0
            waiting = waiting[len(ready.ends) :]
            yield from ready.ends
            if self._give_back and (time.monotonic() - began > TURN_S or self._is_over()):
                for batch in waiting:
                    self._give_back(batch.job)
                return

    def bodies(self, batches: Sequence[Batch], state: ChainState) -> dict[JobId, Body]:
        """Those of the batches that may be read together, and share a slice."""
        found = {}
        for batch in batches:
            with suppress(Exception):  # planned again, it will say why
                plan = self._planned(batch, state)
                body, whole = batch.job.spec.body, batch.payload.on_bad_rows == "fail"
                if body is not None and whole and self._joins(batch, plan):
                    found[batch.job.id] = Body(plan, body)
        return found

    def joined_only(
        self, batches: Sequence[Batch], state: ChainState, folder: Path, known: ReadTogether
    ) -> Ready | None:
        """All of the batches on the head of `state`, to be committed by the caller; None unless
        they are good and share a slice."""
        ready = Ready()
        for number, batch in enumerate(batches):
            try:
                scratch = folder.with_name(f"{folder.name}-{number}")
                part = self._part(batch, state, scratch, known)
            except Exception:  # planned alone, it will say why
                return None
            if part is None:
                return None
            ready.joined.append((batch, part))
        self._join(ready, state, folder)
        return ready if ready.blocks else None

    def _plan(self, waiting: list[Batch], folder: Path) -> Ready:
        """As many batches as may be committed together; lost ones leave `waiting`."""
        began = time.monotonic()
        base = state = self._dataset.state()
        ready = Ready()
        known = ReadTogether(self.bodies(waiting, state), self._context.ingest.limits, folder)
        for number, batch in enumerate(list(waiting)):
            late = time.monotonic() - began > TOGETHER_S or self._is_over()
            if (ready.ends or ready.joined) and late:
                break
            scratch = folder / str(number)
            try:
                if (part := self._part(batch, state, scratch, known)) is not None:
                    ready.joined.append((batch, part))
                    continue
                state = self._join(ready, state, folder)
                scratch.mkdir(exist_ok=True)
                after = self._batch(batch, state, base, scratch, ready)
            except JobLost:
                waiting.remove(batch)
                continue
            except Exception as error:
                ready.ends.append(self._end(batch, self._failure(batch.job, error)))
                continue
            if after is None:
                break
            state = after
        self._join(ready, state, folder)
        return ready

    def _planned(self, batch: Batch, state: ChainState) -> IngestPlan:
        """Planned once on each head. Raises as `plan_ingest`."""
        plan = self._plans.get(batch.job.id)
        if plan is None or plan.head != state.head:
            plan = plan_ingest(state, batch.payload, now=batch.job.submitted_at)
            self._plans[batch.job.id] = plan
        return plan

    def _joins(self, batch: Batch, plan: IngestPlan) -> bool:
        payload = batch.payload
        return may_join(
            batch.job, plan, dry_run=payload.dry_run, expected_head=payload.expected_head
        )

    def _part(
        self, batch: Batch, state: ChainState, scratch: Path, known: ReadTogether
    ) -> Part | None:
        """A batch that can share a slice with others; None for all the rest."""
        payload = batch.payload
        plan = self._planned(batch, state)
        if not self._joins(batch, plan):
            return None
        batch.job_progress.phase("read")
        if (ahead := known.rows(batch.job.id, plan)) is not None:
            return Part(plan=plan, rows=ahead.table, rejected=None, warnings=ahead.warnings)
        context = replace(self._context, job_progress=batch.job_progress)
        path = self._input(batch, scratch)
        extras = push_extras(state, payload, context.ingest.max_rejected_rows)
        return part_of(self._dataset, plan, path, context, scratch, extras)

    def _join(self, ready: Ready, state: ChainState, folder: Path) -> ChainState:
        """Bring those that share a slice to their end; the state with them."""
        if not ready.joined:
            return state
        batches, parts = zip(*ready.joined, strict=True)
        ready.joined = []
        try:
            place = folder / f"joined-{len(ready.ends)}"
            plan, whole = join(parts, self._context.ingest.cut, place)
            blocks, after = author(state, whole.events, system_time=plan.system_time)
            told = receipts_of(parts, plan, whole, blocks)
        except Exception as error:  # not of one of them: each was looked at before
            ready.ends += [self._end(each, self._failure(each.job, error)) for each in batches]
            return state
        for batch, part, each in zip(batches, parts, told, strict=True):
            with suppress(JobLost):  # the commit will tell
                batch.job_progress.phase("commit")
            ready.ends.append(self._end(batch, self._succeeded(batch, each, part.rejected)))
        ready.blocks += blocks
        ready.slices += whole.slices
        return after if blocks else state

    def _succeeded(self, batch: Batch, told: IngestReceipt, rejected: Rejected | None) -> Succeeded:
        if told.rows_rejected:
            told = structs.replace(told, rejected_job=str(batch.job.id))
        kept = None if rejected is None else rejected.document()
        return Succeeded(ingest_job.to_json(told), kept)

    def _batch(
        self, batch: Batch, state: ChainState, base: ChainState, scratch: Path, ready: Ready
    ) -> ChainState | None:
        """Plan one batch; the state with it, None if what is ready has to be committed first."""
        payload = batch.payload
        context = replace(self._context, job_progress=batch.job_progress)
        plan = self._planned(batch, state)
        if state is not base and looks_back(plan.merge):
            return None
        context.job_progress.phase("read")
        path = self._input(batch, scratch)
        outcome = prepare(
            self._dataset,
            plan,
            path,
            context,
            scratch,
            push_extras(state, payload, context.ingest.max_rejected_rows),
        )
        blocks, after = author(state, outcome.events, system_time=plan.system_time)
        told = receipt(plan, outcome, blocks)
        if payload.dry_run:
            schema = None if after.data_schema is None else to_data(after.data_schema)
            told = DryRunReceipt(**structs.asdict(told), schema=schema)
        ready.ends.append(self._end(batch, self._succeeded(batch, told, outcome.rejected)))
        if payload.dry_run:
            return state
        ready.blocks += blocks
        ready.slices += outcome.slices
        context.job_progress.phase("commit")
        return after if blocks else state

    def _input(self, batch: Batch, scratch: Path) -> Path:
        if batch.job.spec.body is not None:
            path = scratch.with_suffix(".input")
            path.write_bytes(batch.job.spec.body)
            return path
        upload = Multihash.parse(batch.payload.upload)
        return local_file(self._dataset, ObjectKind.UPLOAD, upload, scratch / "upload")

    def _commit(self, ready: Ready, waiting: list[Batch]) -> None:
        """All that is ready, by one move of the head. Raises `RefConflict`, `LeaseLost`."""
        if not ready.blocks:
            for end in list(ready.ends):
                try:
                    self._finish(end)
                except LeaseLost:
                    ready.ends.remove(end)
                    waiting[:] = [batch for batch in waiting if batch.job.id != end.job]
            return
        put_slices(
            self._dataset, ready.slices, self._context.objects, self._context.ingest.cut.threads
        )
        base = ready.blocks[0].prev
        if base is None:
            raise AssertionError("unreachable: a batch continues a chain")
        self._dataset.commit(ready.blocks, expected=base, ended=ready.ends)

    def _end(self, batch: Batch, outcome: JobOutcome) -> JobEnd:
        return JobEnd(batch.job.id, self._worker, outcome)
