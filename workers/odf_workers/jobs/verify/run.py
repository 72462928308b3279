"""A verification job: check datasets one by one, inputs first; a failure stops no other check."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import RanReceipt
from odf_storage.datasets.job_payloads.verify_job import (
    VerifiedDataset,
    VerifyAnswer,
    VerifyPayload,
    listed,
)
from odf_storage.datasets.job_payloads.verify_report import CANNOT_TELL, REPRODUCED
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.note import ValidationNote, write_note
from odf_storage.datasets.verify.pending import read_unverified, write_unverified
from odf_storage.datasets.verify.run import (
    EVERYTHING,
    ChainSource,
    DatasetSource,
    Interval,
    VerifyReport,
    verify_chain,
)

from ..transform.replay import CUT_SHORT
from ..work.context import WorkerContext
from ..work.stages_ran import BatchSize, reported
from .replays import Replays, replay_blocks
from .where import Placed

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
class Found:
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
) -> Found:
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
        reported(context.on_stages, where) as ended,
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
    return Found(report=replays.added_to(report), replays=replays, ran=ran)


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
            error=f"{type(failed).__name__}: {failed.message}",
        )


def described(dataset: Dataset, found: Found) -> VerifiedDataset:
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
    stores: Stores, subject: Subject, found: Found, payload: VerifyPayload, *, now: Instant
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
