"""What one iteration of a derivative is to do: a pure function of chain states and new blocks.

Each input gives the blocks its last execution did not see. They are walked in the order of
their system times, over all inputs together, up to where the iteration ends: at the heads,
before a block that would make it too large, or where an input goes on under another schema.
Thus a large backlog gives the iterations that would have happened had they run all along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odf_node.protocol.chain.state import ChainState, Vocab
from odf_node.protocol.errors import BadInput, Conflict
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.data import (
    Checkpoint,
    DataSlice,
    ExecuteTransformInput,
    OffsetInterval,
)
from odf_node.protocol.metadata.engine import Watermark
from odf_node.protocol.metadata.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    SetDataSchema,
    SetTransform,
)
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.protocol.metadata.transforms import Transform
from odf_node.protocol.multihash import Multihash

NO_SCHEMA = "input has no schema yet"


class TransformNotDefined(BadInput):
    """The dataset has no transform to run."""


class InvalidInputInterval(Conflict):
    """The history of an input was rewritten: what the derivative consumed is not in it."""

    def __init__(self, name: str, dataset: DatasetId, head: Multihash, missing: Multihash) -> None:
        super().__init__(
            f"block {missing} of input {name!r} was consumed, but is not in its history any "
            f"more (head {head}); refresh it with --reset-on-diverged-input to compute it anew",
            input=name,
            dataset_id=str(dataset),
            head=str(head),
            missing=str(missing),
        )


@dataclass(frozen=True, slots=True)
class Consumed:
    """How far an input was read: its block, and its last offset if it had rows."""

    block: Multihash | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBlock:
    """What one block of an input means to a plan."""

    hash: Multihash
    system_time: Instant
    adds_data: bool = False
    data: DataSlice | None = None
    last_offset: int | None = None
    """Of the input with this block, if it adds data."""
    watermark: Instant | None = None
    sets_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChain:
    """An input as it is found: the blocks in (consumed, head], oldest first."""

    id: DatasetId
    alias: str
    """What the query calls it."""
    head: Multihash
    has_schema: bool
    blocks: Sequence[InputBlock] = ()
    watermark: Watermark | None = None
    """The newest one up to the consumed block."""
    diverged: bool = False
    """The consumed block is no ancestor of the head."""
    complete: bool = True
    """Whether `blocks` go up to the head, and not only as far as one iteration can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationLimits:
    """How much input one iteration reads: at least one block, then up to so much."""

    rows: int = 50_000_000
    bytes: int = 4 << 30
    across_schemas: bool = False
    """Rows before and after a change of an input's columns together, by its newest schema."""

    def wider(self) -> IterationLimits:
        """For an iteration that gave nothing a chain can record: it has to reach further."""
        return IterationLimits(rows=self.rows * 2, bytes=self.bytes * 2, across_schemas=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlan:
    """What an iteration reads of one input."""

    id: DatasetId
    alias: str
    prev_block: Multihash | None
    new_block: Multihash | None
    prev_offset: int | None
    new_offset: int | None
    slices: tuple[DataSlice, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    remembered: Watermark | None = None
    """What an input without a new watermark said last."""
    as_of: Multihash
    """The block whose schema and vocabulary hold for the slices."""

    @property
    def offset_interval(self) -> OffsetInterval | None:
        if self.new_offset is None:
            return None
        start = 0 if self.prev_offset is None else self.prev_offset + 1
        return OffsetInterval(start=start, end=self.new_offset)

    @property
    def watermark(self) -> Instant | None:
        """Newest known after the iteration."""
        said = [mark.event_time for mark in self.watermarks]
        if self.remembered is not None:
            said.append(self.remembered.event_time)
        return max(said, default=None)

    def record(self) -> ExecuteTransformInput:
        """The interval as a chain holds it."""
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
    """Of the output before the iteration."""
    has_more: bool = False
    """More input waits for the next iteration."""

    @property
    def next_offset(self) -> int:
        return 0 if self.prev_offset is None else self.prev_offset + 1

    @property
    def reads_something(self) -> bool:
        """Whether this is more than a run on empty inputs, which settles the schema."""
        return any(item.slices or item.watermarks for item in self.inputs)

    def event(
        self,
        *,
        data: DataSlice | None,
        checkpoint: Checkpoint | None,
        watermark: Instant | None,
    ) -> ExecuteTransform:
        """What the iteration did, given what the engine made of it."""
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
    """Nothing to do, and why if that is not obvious."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ResetFirst:
    """An input diverged, and the derivative may be reset to compute it anew."""

    cause: InvalidInputInterval


def plan_transform(
    target: ChainState,
    inputs: Sequence[InputChain],
    *,
    now: Instant,
    limits: IterationLimits = IterationLimits(),
    reset_on_diverged: bool = False,
) -> TransformPlan | UpToDate | ResetFirst:
    """Plan the next iteration. `inputs` are those of the transform, in its order.

    Raises:
        TransformNotDefined, NotUnderstood: this chain cannot be executed here.
        InvalidInputInterval: an input was rewritten, and nothing allows a reset.
    """
    definition = require_transform(target)
    consumed = consumed_by(target)
    for item in inputs:
        if not item.has_schema:
            return UpToDate(f"{NO_SCHEMA}: {item.alias}")
    for item in inputs:
        missing = consumed.get(item.id, Consumed()).block
        if item.diverged and missing is not None:
            problem = InvalidInputInterval(item.alias, item.id, item.head, missing)
            if reset_on_diverged:
                return ResetFirst(problem)
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


def require_transform(target: ChainState) -> SetTransform:
    """The transform in force. Raises `TransformNotDefined`, `NotUnderstood`."""
    target.require_understood()
    if target.kind is not DatasetKind.Derivative:
        raise TransformNotDefined("only derivative datasets are computed by a transform")
    if target.transform is None:
        raise TransformNotDefined("the derivative has no SetTransform yet")
    return target.transform


def consumed_by(target: ChainState) -> Mapping[DatasetId, Consumed]:
    """How far each input was read by the last execution.

    Also when the transform changed since: inputs that stay go on where they were, new ones
    begin at their beginning.
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
    """What a block of an input means to a plan."""
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
    """The block whose schema an input has as long as nothing of it was consumed."""
    return next((block.hash for block in blocks if block.sets_schema), None)


def never_back(before: Instant | None, now: Instant | None) -> Instant | None:
    """The watermark after `before`: what is known now, unless that is less."""
    return max((mark for mark in (before, now) if mark is not None), default=None)


def smallest_watermark(inputs: Sequence[Instant | None]) -> Instant | None:
    """Of several inputs together; none until each had one."""
    marks = [mark for mark in inputs if mark is not None]
    return min(marks) if marks and len(marks) == len(inputs) else None


class Fill:
    """How full an iteration is. The first slice always fits."""

    def __init__(self, limits: IterationLimits) -> None:
        self._limits = limits
        self._rows = self._size = 0

    def takes(self, data: DataSlice) -> bool:
        """Whether a slice still fits; it is counted then."""
        rows = self._rows + data.offset_interval.end - data.offset_interval.start + 1
        size = self._size + data.size
        if self._rows and (rows > self._limits.rows or size > self._limits.bytes):
            return False
        self._rows, self._size = rows, size
        return True


def _taken(inputs: Sequence[InputChain], limits: IterationLimits) -> tuple[list[int], bool]:
    """How many blocks of each input the iteration takes, and whether some are left."""
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
    """Blocks of all inputs by system time, those of one input in the order of its chain."""
    keyed = [
        (block.system_time, at, place, block)
        for at, item in enumerate(inputs)
        for place, block in enumerate(item.blocks)
    ]
    keyed.sort(key=lambda entry: entry[:3])
    return ((at, block) for _, at, _, block in keyed)


def input_plan(item: InputChain, before: Consumed, taken: Sequence[InputBlock]) -> InputPlan:
    """The interval of one input that was read up to `before` and gives the blocks `taken`."""
    added = [block for block in taken if block.adds_data]
    last_offset = added[-1].last_offset if added else before.offset
    rest = item.blocks[len(taken) :]
    changes = not item.complete or any(block.sets_schema for block in rest)
    end = taken[-1].hash if taken else before.block or first_schema(item.blocks)
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
