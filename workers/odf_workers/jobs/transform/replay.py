"""Replay: repeat one recorded execution, and compare it with the chain.

    replayed = replay(stores, dataset, block, context)
    if replayed.differences: …            # names of fields that came out differently

A replay uses the same intervals of the inputs, the recorded system time, the transform and schema
in force at that block, and the engine version that made it if this node has that. It commits
nothing. The encoding of files may differ between engines and does not count: if the rows are the
same, hashes and sizes of files are copied from the record. Between different engines a replay
proves less, see `never_runs.py`; checkpoints of other nodes prove nothing, see
`iteration.py`.

Retire old versions of an engine: the present version repeats everything that they computed.

Only if every execution gives the same result, the node notes that the new version replaces the old
ones. Nothing else of the dataset changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput, NodeError, Unavailable
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import ExecuteTransform, ExecuteTransformInput, HashedBlock
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, InvalidInterval
from odf_storage.datasets.dataset.engines import Compatible, EngineRun, read_note, write_note
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.objects.layout import StorageFull, StorageReadOnly

from ...engines.iteration.inputs import holds_state
from ...engines.port.port import Engine, InvalidQuery, is_beyond_limits
from ...plan.transform import (
    Consumed,
    InputBlock,
    InputChain,
    InputPlan,
    TransformNotDefined,
    TransformPlan,
    first_schema,
    input_block,
    input_plan,
    require_transform,
)
from ...runtime.progress import JobLost
from ...slices.conform import UnexpectedNulls
from ...slices.schema import IncompatibleSchema
from ..work.budget import JobOverBudget
from ..work.context import WorkerContext
from ..work.memory import Recent
from .chains import engine_of, is_trusted, last_data, watermark_of
from .iteration import Beginning, Executed, OwnCheckpoints, SchemaNotKnown, checkpoint_file, execute
from .never_runs import proves, readable_checkpoint, runs_nowhere, undecided, with_checkpoint_of
from .result import InputFiles, MadeResult, work_folder
from .run import input_files


class NotVerifiable(BadInput):
    """A replay lacks something, or that fails: an input, its history, or the engine."""


class RunsNowhere(InvalidQuery):
    """No engine can have run the query."""


class ForeignState(NotVerifiable):
    """An execution begins from state that only another node has made."""


FAILS = (InvalidQuery, IncompatibleSchema, UnexpectedNulls, SchemaNotKnown, TransformNotDefined)
"""Errors which mean that the query cannot have produced the record. Other errors concern this node:
something is missing or damaged, or an engine fails for an internal reason."""
CUT_SHORT = (JobLost, JobOverBudget, Unavailable, StorageFull, StorageReadOnly)
"""Errors that end the work without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A recorded execution and its repetition, with the recorded files if the rows agree."""

    block: HashedBlock
    expected: ExecuteTransform
    actual: ExecuteTransform
    schema: DataSchema | None
    """Schema of the repeated rows."""
    engine: str
    engine_version: str
    recorded: EngineRun | None
    """Engine that made the record; None if another node executed it."""
    undecided: str | None = None
    """Reason why the differences prove nothing; None if they do."""

    @property
    def differences(self) -> tuple[str, ...]:
        """Return the fields in which the two differ; none means that the execution is
        reproduced."""
        names = ExecuteTransform.__struct_fields__
        return tuple(n for n in names if getattr(self.expected, n) != getattr(self.actual, n))


def replay(
    stores: Stores,
    dataset: Dataset,
    block: HashedBlock,
    context: WorkerContext,
    *,
    newest_engine: bool = False,
    checkpoints: OwnCheckpoints | None = None,
    on_made: Callable[[MadeResult], None] = lambda _: None,
) -> Replayed:
    """Repeat an execution, with the engine version that made it, or with the newest one. If its
    intervals are not those of the chains, nothing is executed.

    Without `checkpoints`, the recorded one is believed. `on_made` gets the result with its files.

    Raises:
        NotVerifiable: an input is missing, was rewritten since, lacks a slice or is damaged;
            or no engine here runs the query, or it fails for an internal reason; or it refuses
            an execution of another engine, which that one may have been able to run.
        ForeignState: the checkpoints have none from which it may begin.
        InvalidQuery, …: errors in `FAILS`, for an execution that this engine made, unless a
            limit of this machine ended it.
        JobLost, …: errors in `CUT_SHORT`.
    """
    event = block.event
    if not isinstance(event, ExecuteTransform) or block.prev is None:
        raise NotVerifiable(f"block {block.hash} is no execution of a transform")
    note = read_note(stores.objects, dataset.id)
    recorded = note.at(block.sequence_number)
    is_same = newest_engine
    beginning = Beginning()
    try:
        plan, inputs = recorded_plan(stores, dataset.state(block.prev), block, event)
        wanted = None if newest_engine else recorded
        engine = engine_of(plan.transform, context.engines.all, wanted, note)
        is_same = is_same or (recorded is not None and is_trusted(note, recorded, engine))
        if (continued := _continued(plan, event)) != event:
            return _replayed(block, event, continued, engine, recorded)
        with work_folder(context.scratch, "replay-") as name:
            files = input_files(Path(name), context.scratch, context.transforms)
            if checkpoints is None:
                beginning = _recorded_beginning(dataset, plan, files, is_same=is_same)
            else:
                beginning = checkpoints.beginning(dataset, block, plan, note, files)
            done = _executed(dataset, plan, inputs, engine, files, Path(name), context, beginning)
            on_made(done.made)
            _refuse_foreign_state(beginning, done.made)
            if checkpoints is not None:
                checkpoints.keep(block, done.made)
            found = _compared(plan, event, done, block, engine, recorded)
            if not is_same:
                found = _of_another_engine(found, plan, inputs, files, done.made)
            files.trim()
        return found
    except (NotVerifiable, RunsNowhere, *CUT_SHORT):
        raise
    except NodeError as reason:
        if beginning.is_known and _is_proof(reason, is_same=is_same):
            raise
        raise NotVerifiable(f"not verifiable here: {reason.message}", **reason.facts) from reason


def _executed(
    dataset: Dataset,
    plan: TransformPlan,
    inputs: list[Dataset],
    engine: Engine,
    files: InputFiles,
    folder: Path,
    context: WorkerContext,
    beginning: Beginning,
) -> Executed:
    out, told, begun = folder / "out", context.job_progress, beginning.checkpoint
    try:
        return execute(dataset, plan, inputs, engine, files, out, told, checkpoint=begun)
    except InvalidQuery as refused:
        if runs_nowhere(refused, plan, inputs, context.scratch):
            raise RunsNowhere(refused.message, **refused.facts) from refused
        raise


def _recorded_beginning(
    dataset: Dataset, plan: TransformPlan, files: InputFiles, *, is_same: bool
) -> Beginning:
    """Return the recorded checkpoint; from another engine only if this one can read it."""
    find = checkpoint_file if is_same else readable_checkpoint
    return Beginning(find(dataset, plan, files))


def _continued(plan: TransformPlan, event: ExecuteTransform) -> ExecuteTransform:
    """Return the record with the intervals that follow from the chains. They depend on no engine,
    so a record with others is wrong whatever an engine computes."""
    made = plan.event(data=None, checkpoint=None, watermark=None)
    return replace(
        event,
        query_inputs=made.query_inputs,
        prev_offset=made.prev_offset,
        prev_checkpoint=made.prev_checkpoint,
    )


def _replayed(
    block: HashedBlock,
    event: ExecuteTransform,
    actual: ExecuteTransform,
    engine: Engine,
    recorded: EngineRun | None,
    schema: DataSchema | None = None,
) -> Replayed:
    return Replayed(
        block=block,
        expected=event,
        actual=actual,
        schema=schema,
        engine=engine.name,
        engine_version=engine.version,
        recorded=recorded,
    )


def _compared(
    plan: TransformPlan,
    event: ExecuteTransform,
    done: Executed,
    block: HashedBlock,
    engine: Engine,
    recorded: EngineRun | None,
) -> Replayed:
    made = plan.event(
        data=done.made.data,
        checkpoint=done.made.checkpoint,
        watermark=done.response.new_watermark,
    )
    schema = None if done.made.schema is None else done.made.schema.schema
    return _replayed(block, event, with_files_of(made, event), engine, recorded, schema)


def _of_another_engine(
    found: Replayed, plan: TransformPlan, inputs: list[Dataset], files: InputFiles, made: MadeResult
) -> Replayed:
    found = replaced(found, actual=with_checkpoint_of(found.actual, found.expected))
    why = undecided(found.differences, plan, inputs, files, made)
    return replaced(found, undecided=why)


def _refuse_foreign_state(beginning: Beginning, made: MadeResult) -> None:
    """Check that a query that keeps state began from a known one. Raises `ForeignState`."""
    if not beginning.is_known and holds_state(made.checkpoint_path):
        raise ForeignState("not verifiable here: it begins from state of another node")


def _is_proof(reason: NodeError, *, is_same: bool) -> bool:
    """Whether the error proves that the query cannot have produced the record."""
    fails = isinstance(reason, FAILS) and not _is_of_this_machine(reason)
    return fails and (is_same or proves(reason))


def _is_of_this_machine(reason: NodeError) -> bool:
    """Whether the error means only that this machine was slower or smaller than the one that made
    the record."""
    return isinstance(reason, InvalidQuery) and is_beyond_limits(reason)


def recorded_plan(
    stores: Stores,
    before: ChainState,
    block: HashedBlock,
    event: ExecuteTransform,
    known: Recent[InputPlan] | None = None,
) -> tuple[TransformPlan, list[Dataset]]:
    """Rebuild the plan of a recorded execution, with parts of inputs that are `known`. Raises the
    same errors as `replay`, and `…NotFound`."""
    definition = require_transform(before)
    names = {item.dataset_ref.id: str(item.alias) for item in definition.inputs}
    inputs = [stores.dataset(DatasetRef(id=item.dataset_id)) for item in event.query_inputs]
    last = before.last_execution
    plan = TransformPlan(
        head=block.hash if block.prev is None else block.prev,
        transform=definition.transform,
        inputs=tuple(
            _recorded_input(dataset, item, names.get(item.dataset_id, ""), known)
            for dataset, item in zip(inputs, event.query_inputs, strict=True)
        ),
        vocab=before.vocab,
        schema=before.data_schema,
        system_time=block.block.system_time,
        prev_offset=before.last_offset,
        prev_checkpoint=(
            last.new_checkpoint.physical_hash if last and last.new_checkpoint else None
        ),
        watermark=before.watermark,
    )
    return plan, inputs


def _recorded_input(
    dataset: Dataset, item: ExecuteTransformInput, alias: str, known: Recent[InputPlan] | None
) -> InputPlan:
    """Return the input with the blocks of the recorded interval, as in the original plan."""
    upto = item.new_block_hash or item.prev_block_hash
    key = (item.dataset_id, alias, item.prev_block_hash, item.new_block_hash)
    try:
        if upto is not None:
            dataset.path(after=upto)  # fails unless it is still an ancestor of the head
        if known is not None:
            return known.get(key, lambda: _read_input(dataset, item, alias, upto))
        return _read_input(dataset, item, alias, upto)
    except InvalidInterval as gone:
        raise NotVerifiable(
            f"not verifiable here: the history of input {alias!r} was rewritten since",
            **gone.facts,
        ) from gone


def _read_input(
    dataset: Dataset, item: ExecuteTransformInput, alias: str, upto: Multihash | None
) -> InputPlan:
    """Raise `InvalidInterval`."""
    blocks: list[InputBlock] = []
    if item.new_block_hash is not None:
        pages = dataset.pages(after=item.prev_block_hash, upto=item.new_block_hash)
        blocks = [input_block(one) for page in pages for one in page]
    last = last_data(dataset, item.prev_block_hash)
    consumed = Consumed(item.prev_block_hash, None if last is None else last.last_offset)
    chain = InputChain(
        id=dataset.id,
        alias=alias,
        head=_schema_block(dataset, upto),
        has_schema=True,
        had_schema=True,
        blocks=blocks,
        watermark=watermark_of(last),
    )
    return input_plan(chain, consumed, blocks)


def _schema_block(dataset: Dataset, upto: Multihash | None) -> Multihash:
    """Return the last block that is read, or the first block with a schema if none was read yet."""
    if upto is not None and dataset.state(upto).schema is not None:
        return upto
    for page in dataset.pages():
        if (found := first_schema(input_block(block) for block in page)) is not None:
            return found
    return dataset.head()


def with_files_of(made: ExecuteTransform, recorded: ExecuteTransform) -> ExecuteTransform:
    """Return the repeated execution with hashes and sizes of files as recorded.

    Another Parquet encoding of the same rows is allowed, and the content of checkpoints is not
    compared; logical hash, offsets and presence are.
    """
    data, checkpoint = made.new_data, made.new_checkpoint
    if data is not None and recorded.new_data is not None:
        data = replace(
            data,
            physical_hash=recorded.new_data.physical_hash,
            size=recorded.new_data.size,
        )
    if checkpoint is not None and recorded.new_checkpoint is not None:
        checkpoint = recorded.new_checkpoint
    return replace(made, new_data=data, new_checkpoint=checkpoint)


Progress = Callable[[int], None]
"""Called with the number of executions repeated so far."""


@dataclass(slots=True, kw_only=True)
class Deprecation:
    """Result of a deprecation. Blocks are named by hash."""

    same: int = 0
    """Number of executions of older versions that gave the same result."""
    differing: list[str] = field(default_factory=list)
    not_verifiable: list[str] = field(default_factory=list)
    compatible: list[str] = field(default_factory=list)
    """Entries noted: engine, old version, new version."""

    @property
    def ok(self) -> bool:
        return not self.differing and not self.not_verifiable

    def to_data(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        return {"ok": self.ok, **asdict(self)}


def deprecate(
    stores: Stores,
    dataset: Dataset,
    context: WorkerContext,
    *,
    progress: Progress = lambda _count: None,
) -> Deprecation:
    """Repeat the executions that other engine versions computed here; note the versions if all
    results are the same.

    Executions of other nodes, whose engine is not noted, are left out.
    """
    found, seen = Deprecation(), dict[Compatible, None]()
    note = read_note(stores.objects, dataset.id)
    count = 0
    for page in dataset.pages():
        for block in page:
            recorded = note.at(block.sequence_number)
            if not isinstance(block.event, ExecuteTransform) or recorded is None:
                continue
            try:
                made = replay(stores, dataset, block, context, newest_engine=True)
            except NotVerifiable:
                found.not_verifiable.append(str(block.hash))
                continue
            except CUT_SHORT:
                raise
            except NodeError:  # the query fails on this version
                found.differing.append(str(block.hash))
                continue
            count += 1
            progress(count)
            if made.differences:
                found.differing.append(str(block.hash))
            elif recorded.version != made.engine_version:
                found.same += 1
                seen[Compatible(made.engine, recorded.version, made.engine_version)] = None
    if found.ok and seen:
        note = read_note(stores.objects, dataset.id)  # keep notes of executions made meanwhile
        for one in seen:
            note = note.with_compatible(one)
            found.compatible.append(f"{one.engine} {one.old} {one.new}")
        write_note(stores.objects, dataset.id, note)
    return found
