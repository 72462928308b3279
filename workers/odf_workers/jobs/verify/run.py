"""A verification job: check datasets one by one, inputs first; a failure stops no other check.

Repeat executions of a derivative one by one: reproduced, not reproduced, or cannot tell.

"Cannot tell" means that something a replay needs is missing or does not work: an input, its former
history, an engine, or the state before it; or another engine made the block by different rules.
That proves nothing against the block, so it is a note and not a problem. If the job is cancelled or
a store is not available, the verification ends without a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind, ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import read_note
from odf_storage.datasets.job_payloads.ingest_job import RanReceipt
from odf_storage.datasets.job_payloads.verify_job import (
    CANNOT_TELL,
    NOT_REPRODUCED,
    NOT_REPRODUCIBLE,
    NOT_VERIFIABLE,
    REPRODUCED,
    CheckedBlock,
    VerifiedDataset,
    VerifyAnswer,
    VerifyPayload,
    VerifyProblem,
    VerifyReport,
    listed,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.note import ValidationNote, write_note
from odf_storage.datasets.verify.pending import read_unverified, write_unverified
from odf_storage.datasets.verify.run import (
    EVERYTHING,
    ChainSource,
    DatasetSource,
    Interval,
    verify_chain,
)

from ..transform.iteration import OwnCheckpoints
from ..transform.replay import CUT_SHORT, ForeignState, NotVerifiable, Replayed, replay
from ..transform.result import work_folder
from ..work.context import BatchSize, WorkerContext, reported
from .spread import Placed


@dataclass(slots=True)
class Replays:
    """Results of the replays of one dataset."""

    verdicts: dict[str, str] = field(default_factory=dict)
    """Verdicts by block."""
    problems: list[VerifyProblem] = field(default_factory=list)
    notes: list[VerifyProblem] = field(default_factory=list)
    engines: Counter[str] = field(default_factory=Counter)

    def count(self, verdict: str) -> int:
        return sum(found == verdict for found in self.verdicts.values())

    def added_to(self, report: VerifyReport) -> VerifyReport:
        """Return the report with the results of replays added."""
        return replace(
            report,
            problems=(*report.problems, *self.problems),
            notes=(*report.notes, *self.notes),
            data_blocks=tuple(self._judged(block) for block in report.data_blocks),
        )

    def _judged(self, block: CheckedBlock) -> CheckedBlock:
        return replace(block, replay=self.verdicts.get(block.block))


def replay_blocks(
    stores: Stores,
    dataset: Dataset,
    blocks: Sequence[CheckedBlock],
    context: WorkerContext,
) -> Replays:
    """Repeat the executions among these blocks, oldest first; nothing is committed.

    Raises:
        JobLost, …: errors in `CUT_SHORT`.
    """
    found = Replays()
    executions = [block for block in blocks if block.event == ExecuteTransform.__name__]
    oldest_first = sorted(executions, key=lambda block: block.sequence_number)
    with work_folder(context.scratch, "checkpoints-") as folder:
        checkpoints = OwnCheckpoints(Path(folder))
        for done, checked in enumerate(oldest_first, 1):
            context.job_progress.step(done - 1, len(oldest_first))
            block = dataset.block(Multihash.parse(checked.block))
            _replay(stores, dataset, block, context, checkpoints, found)
            context.job_progress.step(done, len(oldest_first))
    return found


def _replay(
    stores: Stores,
    dataset: Dataset,
    block: HashedBlock,
    context: WorkerContext,
    checkpoints: OwnCheckpoints,
    found: Replays,
) -> None:
    name = str(block.hash)
    try:
        made = _made_again(stores, dataset, block, context, checkpoints)
    except NotVerifiable as absent:
        found.verdicts[name] = CANNOT_TELL
        found.notes.append(_problem(NOT_VERIFIABLE, block, absent.message))
        return
    except CUT_SHORT:
        raise
    except NodeError as failed:
        found.verdicts[name] = NOT_REPRODUCED
        message = f"the transformation fails: {failed.code}: {failed.message}"
        found.problems.append(_problem(NOT_REPRODUCIBLE, block, message))
        return
    found.engines[f"{made.engine} {made.engine_version}"] += 1
    if not made.differences:
        found.verdicts[name] = REPRODUCED
        return
    if made.undecided is not None:
        found.verdicts[name] = CANNOT_TELL
        message = f"not verifiable here: it differs in {', '.join(made.differences)}, but "
        found.notes.append(_problem(NOT_VERIFIABLE, block, message + made.undecided))
        return
    found.verdicts[name] = NOT_REPRODUCED
    found.problems.append(_different(block, made))


def _made_again(
    stores: Stores,
    dataset: Dataset,
    block: HashedBlock,
    context: WorkerContext,
    checkpoints: OwnCheckpoints,
) -> Replayed:
    """Replay an execution. If it begins from state of another node, first replay the executions
    before it, which make this state here. Raises the same errors as `replay`."""
    try:
        return replay(stores, dataset, block, context, checkpoints=checkpoints)
    except ForeignState:
        for name in checkpoints.missing(dataset, block, read_note(stores.objects, dataset.id)):
            _make_state(stores, dataset, dataset.block(name), context, checkpoints)
        return replay(stores, dataset, block, context, checkpoints=checkpoints)


def _make_state(
    stores: Stores,
    dataset: Dataset,
    block: HashedBlock,
    context: WorkerContext,
    checkpoints: OwnCheckpoints,
) -> None:
    """Replay an execution for its state. Raises `NotVerifiable` unless it is reproduced."""
    begun = f"not verifiable here: it begins from the state of block {block.sequence_number}, "
    try:
        made = replay(stores, dataset, block, context, checkpoints=checkpoints)
    except (NotVerifiable, *CUT_SHORT):
        raise
    except NodeError as failed:
        raise NotVerifiable(f"{begun}which fails: {failed.message}") from failed
    if made.differences:
        raise NotVerifiable(f"{begun}which differs in {', '.join(made.differences)}")


def _different(block: HashedBlock, made: Replayed) -> VerifyProblem:
    fields = ", ".join(made.differences)
    message = f"made again by {made.engine} {made.engine_version} it differs in {fields}"
    recorded = made.recorded
    if recorded is not None and recorded.version != made.engine_version:
        message += f"; it was made by {recorded.engine} {recorded.version}, which is not here"
    problem = _problem(NOT_REPRODUCIBLE, block, message)
    return replace(problem, expected=to_data(made.expected), actual=to_data(made.actual))


def _problem(kind: str, block: HashedBlock, message: str) -> VerifyProblem:
    return VerifyProblem(
        kind=kind,
        reason=kind,
        message=message,
        block=str(block.hash),
        sequence_number=block.sequence_number,
    )


PHASE = "verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A dataset to verify, its bytes, and the interval to verify."""

    dataset: Dataset
    source: ChainSource
    interval: Interval = EVERYTHING

    @property
    def is_whole(self) -> bool:
        return self.interval == EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result of the verification of a dataset."""

    report: VerifyReport
    replays: Replays
    ran: RanReceipt | None = None
    """Where objects were checked, if there were any."""

    @property
    def ok(self) -> bool:
        return self.report.ok


def verify_dataset(
    stores: Stores,
    subject: Subject,
    payload: VerifyPayload,
    context: WorkerContext,
) -> Verified:
    """Check chain, objects and rows; then replay, if the chain is sound enough to trust its
    records.

    Raises:
        NodeError: the dataset or interval does not exist; Spark could not do its part.
        JobLost, JobOverBudget: the job was ended.
    """
    told = context.job_progress
    told.phase(PHASE)
    with (
        closing(Placed(context, subject.dataset.id)) as where,
        reported(context.on_stages, lambda: where.usage) as ended,
    ):
        report = verify_chain(
            subject.source,
            objects=payload.objects,
            logical=payload.rows,
            interval=subject.interval,
            progress=lambda _phase, done, total: told.step(done, total),
            where=where,
        )
        if (ran := where.ran()) is not None:
            ended.append(BatchSize(bytes=ran.bytes))
    derivative = subject.dataset.entry.kind is DatasetKind.Derivative
    chain_is_sound = all(problem.kind.startswith(("Data", "Check")) for problem in report.problems)
    replays = Replays()
    if payload.replay and derivative and chain_is_sound:
        replays = replay_blocks(stores, subject.dataset, report.data_blocks, context)
    return Verified(report=replays.added_to(report), replays=replays, ran=ran)


def run_verification(
    stores: Stores,
    dataset: Dataset,
    payload: VerifyPayload,
    context: WorkerContext,
    *,
    now: Instant,
) -> VerifyAnswer:
    """Verify the inputs and the dataset; a failure of one is part of the answer.

    The result for a whole dataset is noted beside its objects.
    """
    found = [_input(stores, DatasetId.parse(one), payload, context, now) for one in payload.inputs]
    subject = Subject(
        dataset=dataset,
        source=DatasetSource(dataset),
        interval=Interval(after=_hash(payload.after), upto=_hash(payload.upto)),
    )
    done = verify_dataset(stores, subject, payload, context)
    note(stores, subject, done, payload, now=now)
    found.append(described(dataset, done))
    return VerifyAnswer(
        ok=all(one.ok for one in found), head=done.report.head, datasets=tuple(found)
    )


def _input(
    stores: Stores,
    one: DatasetId,
    payload: VerifyPayload,
    context: WorkerContext,
    now: Instant,
) -> VerifiedDataset:
    """Verify an input; an input that cannot be checked is reported as not valid."""
    alias = ""
    try:
        dataset = stores.dataset(DatasetRef(id=one))
        alias = str(dataset.entry.alias)
        subject = Subject(dataset=dataset, source=DatasetSource(dataset))
        done = verify_dataset(stores, subject, payload, context)
        note(stores, subject, done, payload, now=now)
        return described(dataset, done)
    except CUT_SHORT:
        raise
    except NodeError as failed:
        return VerifiedDataset(
            id=str(one),
            alias=alias,
            ok=False,
            replayed=0,
            not_verifiable=0,
            engines=(),
            report={},
            error=f"{failed.code}: {failed.message}",
        )


def described(dataset: Dataset, found: Verified) -> VerifiedDataset:
    return VerifiedDataset(
        id=str(dataset.id),
        alias=str(dataset.entry.alias),
        ok=found.ok,
        replayed=found.replays.count(REPRODUCED),
        not_verifiable=found.replays.count(CANNOT_TELL),
        engines=tuple(sorted(found.replays.engines)),
        report=listed(found.report),
        ran=found.ran,
    )


def note(
    stores: Stores, subject: Subject, found: Verified, payload: VerifyPayload, *, now: Instant
) -> None:
    """Store the result, if all of the dataset was verified."""
    everything = payload.objects and payload.rows and payload.replay
    if not everything or not subject.is_whole or not found.report.blocks:
        return
    head = Multihash.parse(found.report.head)
    if found.ok:
        _all_rows_looked_at(stores, subject.dataset, head)
    first = found.report.problems[0] if found.report.problems else None
    write_note(
        stores.objects,
        subject.dataset.id,
        ValidationNote(
            ok=found.ok,
            block=str(head),
            sequence_number=found.report.blocks - 1,
            at=str(now),
            engines=tuple(sorted(found.replays.engines)),
            replayed=found.replays.count(REPRODUCED),
            not_verifiable=found.replays.count(CANNOT_TELL),
            problems=len(found.report.problems),
            warnings=len(found.report.warnings),
            first_problem=None if first is None else f"{first.kind} #{first.sequence_number}",
        ),
    )


def _all_rows_looked_at(stores: Stores, dataset: Dataset, head: Multihash) -> None:
    """Remove the mark of rows to be hashed, unless new blocks arrived meanwhile."""
    with stores.locks.hold(dataset.id):
        note = read_unverified(stores.objects, dataset.id)
        if note is not None and dataset.head() == head:
            write_unverified(stores.objects, dataset.id, None)


def _hash(text: str | None) -> Multihash | None:
    return None if text is None else Multihash.parse(text)
