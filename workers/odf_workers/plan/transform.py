"""The plan of a derivative's iteration: a pure function of chain states and new blocks.

Each input contributes the blocks after its last execution. They are processed in the order of their
system times, over all inputs together. The iteration ends at the heads, before a block that would
make it too large, or where an input changes its schema. Thus a large backlog is split into the
iterations that regular runs would have made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    HashedBlock,
    OffsetInterval,
    SetDataSchema,
    SetTransform,
    Transform,
    Watermark,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash

NO_SCHEMA = "input has no schema yet"


class TransformNotDefined(BadInput):
    """The dataset has no transform to run."""


def invalid_input_interval(item: InputChain, consumed: Multihash, problem: str) -> Conflict:
    """The history of an input does not contain what the derivative consumed: it was rewritten, or
    the derivative records another offset than that of the consumed block."""
    return Conflict(
        "InvalidInputInterval",
        f"block {consumed} of input {item.alias!r} was consumed, but {problem}; "
        "refresh it with --reset-on-diverged-input to compute it anew",
        input=item.alias,
        dataset_id=str(item.id),
        head=str(item.head),
        missing=str(consumed),
    )


@dataclass(frozen=True, slots=True)
class Consumed:
    """How far an input was read: its last block, and its last offset if it had rows."""

    block: Multihash | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBlock:
    """The properties of an input's block that a plan needs."""

    hash: Multihash
    system_time: Instant
    adds_data: bool = False
    data: DataSlice | None = None
    last_offset: int | None = None
    """Last offset of the input as of this block, if the block adds data."""
    watermark: Instant | None = None
    sets_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChain:
    """The present state of an input: the blocks in (consumed, head], oldest first."""

    id: DatasetId
    alias: str
    """Name of the input in the query."""
    head: Multihash
    has_schema: bool
    had_schema: bool = False
    """Whether the input has a schema as of the consumed block."""
    blocks: Sequence[InputBlock] = ()
    watermark: Watermark | None = None
    """The newest watermark up to the consumed block."""
    last_offset: int | None = None
    """The last offset as of the consumed block."""
    diverged: bool = False
    """Whether the consumed block is not an ancestor of the head."""
    complete: bool = True
    """Whether `blocks` reach up to the head; otherwise they end where one iteration must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationLimits:
    """Limits of the input of one iteration, which reads at least one block."""

    rows: int = 50_000_000
    bytes: int = 4 << 30
    across_schemas: bool = False
    """Whether to read rows before and after a change of an input's columns together, with the
    newest schema."""

    def wider(self) -> IterationLimits:
        """Return larger limits, for use after an iteration with a result that no block can
        record."""
        return IterationLimits(rows=self.rows * 2, bytes=self.bytes * 2, across_schemas=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlan:
    """The part of one input that an iteration reads."""

    id: DatasetId
    alias: str
    prev_block: Multihash | None
    new_block: Multihash | None
    prev_offset: int | None
    new_offset: int | None
    slices: tuple[DataSlice, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    remembered: Watermark | None = None
    """The last watermark of an input without a new one."""
    as_of: Multihash
    """Block whose schema and vocabulary apply to the slices."""

    @property
    def offset_interval(self) -> OffsetInterval | None:
        if self.new_offset is None:
            return None
        start = 0 if self.prev_offset is None else self.prev_offset + 1
        return OffsetInterval(start=start, end=self.new_offset)

    @property
    def watermark(self) -> Instant | None:
        """The newest known watermark after the iteration."""
        said = [mark.event_time for mark in self.watermarks]
        if self.remembered is not None:
            said.append(self.remembered.event_time)
        return max(said, default=None)

    def record(self) -> ExecuteTransformInput:
        """Return the interval in the form stored in a chain."""
        return ExecuteTransformInput(
            dataset_id=self.id,
            prev_block_hash=self.prev_block,
            new_block_hash=self.new_block,
            prev_offset=self.prev_offset,
            new_offset=self.new_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPlan:
    """One iteration on top of `head`."""

    head: Multihash
    transform: Transform
    inputs: tuple[InputPlan, ...]
    vocab: Vocab
    schema: DataSchema | None
    system_time: Instant
    prev_offset: int | None
    prev_checkpoint: Multihash | None
    watermark: Instant | None
    """Watermark of the output before the iteration."""
    has_more: bool = False
    """Whether more input waits for the next iteration."""

    @property
    def next_offset(self) -> int:
        return 0 if self.prev_offset is None else self.prev_offset + 1

    @property
    def reads_something(self) -> bool:
        """Whether this is more than a run on empty inputs, which only sets the schema."""
        return any(item.slices or item.watermarks for item in self.inputs)

    def event(
        self,
        *,
        data: DataSlice | None,
        checkpoint: Checkpoint | None,
        watermark: Instant | None,
    ) -> ExecuteTransform:
        """Return the event of the iteration, given the engine's output."""
        return ExecuteTransform(
            query_inputs=tuple(item.record() for item in self.inputs),
            prev_checkpoint=self.prev_checkpoint,
            prev_offset=self.prev_offset,
            new_data=data,
            new_checkpoint=checkpoint,
            new_watermark=never_back(self.watermark, watermark),
        )


@dataclass(frozen=True, slots=True)
class UpToDate:
    """There is nothing to do; with a reason if that is not obvious."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ResetFirst:
    """An input diverged, and the derivative may be reset and computed again."""

    cause: Conflict


def plan_transform(
    target: ChainState,
    inputs: Sequence[InputChain],
    *,
    now: Instant,
    limits: IterationLimits = IterationLimits(),
    reset_on_diverged: bool = False,
) -> TransformPlan | UpToDate | ResetFirst:
    """Plan the next iteration. `inputs` are the transform's inputs, in its order.

    Raises:
        TransformNotDefined, NotUnderstood: this node cannot execute this chain.
        InvalidInputInterval: an input does not contain what was consumed, and a reset is not
            allowed.
    """
    definition = require_transform(target)
    consumed = consumed_by(target)
    for item in inputs:
        if not item.has_schema:
            return UpToDate(f"{NO_SCHEMA}: {item.alias}")
    for item in inputs:
        problem = _broken_interval(item, consumed.get(item.id, Consumed()))
        if problem is not None and reset_on_diverged:
            return ResetFirst(problem)
        if problem is not None:
            raise problem
    taken, has_more = _taken(inputs, limits)
    plans = tuple(
        input_plan(item, consumed.get(item.id, Consumed()), item.blocks[:count])
        for item, count in zip(inputs, taken, strict=True)
    )
    if target.head is None or target.system_time is None:
        raise TransformNotDefined("the dataset has no blocks")
    last = target.last_execution
    plan = TransformPlan(
        head=target.head,
        transform=definition.transform,
        inputs=plans,
        vocab=target.vocab,
        schema=target.data_schema,
        system_time=max(now, target.system_time),
        prev_offset=target.last_offset,
        prev_checkpoint=(
            last.new_checkpoint.physical_hash if last and last.new_checkpoint else None
        ),
        watermark=target.watermark,
        has_more=has_more,
    )
    if not plan.reads_something and target.schema is not None:
        return UpToDate()
    return plan


def _broken_interval(item: InputChain, before: Consumed) -> Conflict | None:
    """Return what is wrong with the consumed interval of an input, if anything."""
    if before.block is None:
        return None
    if item.diverged:
        gone = f"is not in its history any more (head {item.head})"
        return invalid_input_interval(item, before.block, gone)
    if before.offset != item.last_offset:
        other = f"offset {before.offset} was recorded instead of its {item.last_offset}"
        return invalid_input_interval(item, before.block, other)
    return None


def require_transform(target: ChainState) -> SetTransform:
    """Return the transform in force. Raises `TransformNotDefined`, `NotUnderstood`."""
    target.require_understood()
    if target.kind is not DatasetKind.Derivative:
        raise TransformNotDefined("only derivative datasets are computed by a transform")
    if target.transform is None:
        raise TransformNotDefined("the derivative has no SetTransform yet")
    return target.transform


def consumed_by(target: ChainState) -> Mapping[DatasetId, Consumed]:
    """Return how far the last execution read each input.

    This also holds when the transform has changed since: inputs that stay continue at their
    position, new ones start from the beginning.
    """
    last = target.last_execution
    return {
        item.dataset_id: Consumed(
            item.new_block_hash or item.prev_block_hash,
            item.prev_offset if item.new_offset is None else item.new_offset,
        )
        for item in (last.query_inputs if last else ())
    }


def input_block(block: HashedBlock) -> InputBlock:
    """Extract from a block of an input what a plan needs."""
    event, when = block.event, block.block.system_time
    match event:
        case AddData() | ExecuteTransform():
            data = event.new_data
            return InputBlock(
                hash=block.hash,
                system_time=when,
                adds_data=True,
                data=data,
                last_offset=event.prev_offset if data is None else data.offset_interval.end,
                watermark=event.new_watermark,
            )
        case SetDataSchema():
            return InputBlock(hash=block.hash, system_time=when, sets_schema=True)
        case _:
            return InputBlock(hash=block.hash, system_time=when)


def first_schema(blocks: Iterable[InputBlock]) -> Multihash | None:
    """Return the first block with a schema, which applies while only blocks before it were
    consumed."""
    return next((block.hash for block in blocks if block.sets_schema), None)


def never_back(before: Instant | None, now: Instant | None) -> Instant | None:
    """Return the new watermark: the present value, but never less than `before`."""
    return max((mark for mark in (before, now) if mark is not None), default=None)


def smallest_watermark(inputs: Sequence[Instant | None]) -> Instant | None:
    """Return the watermark of several inputs together; None until each has one."""
    marks = [mark for mark in inputs if mark is not None]
    return min(marks) if marks and len(marks) == len(inputs) else None


class Fill:
    """Counts the input of an iteration. The first slice always fits."""

    def __init__(self, limits: IterationLimits) -> None:
        self._limits = limits
        self._rows = self._size = 0

    def takes(self, data: DataSlice) -> bool:
        """Whether a slice still fits; if so, count it."""
        rows = self._rows + data.offset_interval.count
        size = self._size + data.size
        if self._rows and (rows > self._limits.rows or size > self._limits.bytes):
            return False
        self._rows, self._size = rows, size
        return True


def _taken(inputs: Sequence[InputChain], limits: IterationLimits) -> tuple[list[int], bool]:
    """Return how many blocks of each input the iteration reads, and whether some are left."""
    taken = [0] * len(inputs)
    fed = [False] * len(inputs)
    fill = Fill(limits)
    for at, block in _by_time(inputs):
        if block.sets_schema and fed[at] and not limits.across_schemas:
            return taken, True
        if block.data is not None and not fill.takes(block.data):
            return taken, True
        fed[at] = fed[at] or block.adds_data
        taken[at] += 1
    return taken, False


def _by_time(inputs: Sequence[InputChain]) -> Iterator[tuple[int, InputBlock]]:
    """Yield blocks of all inputs by system time; blocks of one input stay in the order of its
    chain."""
    keyed = [
        (block.system_time, at, place, block)
        for at, item in enumerate(inputs)
        for place, block in enumerate(item.blocks)
    ]
    keyed.sort(key=lambda entry: entry[:3])
    return ((at, block) for _, at, _, block in keyed)


def input_plan(item: InputChain, before: Consumed, taken: Sequence[InputBlock]) -> InputPlan:
    """Return the plan for one input, which was read up to `before` and contributes the blocks
    `taken`."""
    added = [block for block in taken if block.adds_data]
    last_offset = added[-1].last_offset if added else before.offset
    rest = item.blocks[len(taken) :]
    changes = not item.complete or any(block.sets_schema for block in rest)
    end = taken[-1].hash if taken else before.block
    if not item.had_schema and first_schema(taken) is None:
        end = first_schema(item.blocks)
    marks = tuple(
        Watermark(system_time=block.system_time, event_time=block.watermark)
        for block in added
        if block.watermark is not None
    )
    return InputPlan(
        id=item.id,
        alias=item.alias,
        prev_block=before.block,
        new_block=taken[-1].hash if taken else None,
        prev_offset=before.offset,
        new_offset=None if last_offset == before.offset else last_offset,
        slices=tuple(block.data for block in added if block.data is not None),
        watermarks=marks,
        remembered=None if marks else item.watermark,
        as_of=end if end and changes else item.head,
    )
