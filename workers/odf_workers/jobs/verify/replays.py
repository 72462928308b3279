"""Repeat executions of a derivative one by one: reproduced, not reproduced, or cannot tell.

"Cannot tell" means that something a replay needs is missing or does not work: an input, its former
history, an engine, or the state before it; or another engine made the block by different rules.
That proves nothing against the block, so it is a note and not a problem. If the job is cancelled or
a store is not available, the verification ends without a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import NodeError
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import read_note
from odf_storage.datasets.job_payloads.verify_report import (
    CANNOT_TELL,
    NOT_REPRODUCED,
    NOT_REPRODUCIBLE,
    NOT_VERIFIABLE,
    REPRODUCED,
    CheckedBlock,
    Problem,
    VerifyReport,
)
from odf_storage.datasets.node.stores import Stores

from ..transform.files import work_folder
from ..transform.own_checkpoints import OwnCheckpoints
from ..transform.replay import CUT_SHORT, ForeignState, NotVerifiable, Replayed, replay
from ..work.context import WorkerContext


@dataclass(slots=True)
class Replays:
    """Results of the replays of one dataset."""

    verdicts: dict[str, str] = field(default_factory=dict)
    """Verdicts by block."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
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
        message = f"the transformation fails: {type(failed).__name__}: {failed.message}"
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


def _different(block: HashedBlock, made: Replayed) -> Problem:
    fields = ", ".join(made.differences)
    message = f"made again by {made.engine} {made.engine_version} it differs in {fields}"
    recorded = made.recorded
    if recorded is not None and recorded.version != made.engine_version:
        message += f"; it was made by {recorded.engine} {recorded.version}, which is not here"
    problem = _problem(NOT_REPRODUCIBLE, block, message)
    return replace(problem, expected=to_data(made.expected), actual=to_data(made.actual))


def _problem(kind: str, block: HashedBlock, message: str) -> Problem:
    return Problem(
        kind=kind,
        reason=kind,
        message=message,
        block=str(block.hash),
        sequence_number=block.sequence_number,
    )
