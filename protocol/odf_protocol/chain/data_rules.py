"""Rules of the data events, `AddData` and `ExecuteTransform`: offsets, watermark, checkpoints.

"Last data block" is the nearest earlier one of either kind. Each rule is a function of
(state, block, event); `rules.py` has the order in which they are checked.
"""

# ruff: noqa: ARG001 - all rules have the same parameters, and few need all three
from __future__ import annotations

from ..identity import DatasetId
from ..metadata.events import (
    AddData,
    Checkpoint,
    ExecuteTransform,
    ExecuteTransformInput,
    HashedBlock,
)
from ..multihash import Multihash
from .definition_rules import ChainRuleBroken
from .state import ChainState

DataEvent = AddData | ExecuteTransform


def slice_starts_after_previous_offset(
    state: ChainState, block: HashedBlock, event: DataEvent
) -> None:
    if event.new_data is None:
        return
    start = event.new_data.offset_interval.start
    expected = 0 if event.prev_offset is None else event.prev_offset + 1
    if start != expected:
        raise ChainRuleBroken(
            "OffsetsAreNotSequential",
            block,
            f"its slice starts at offset {start}, the next one is {expected}",
            expected=expected,
            new=start,
        )


def slice_has_rows(state: ChainState, block: HashedBlock, event: DataEvent) -> None:
    if event.new_data is None:
        return
    interval = event.new_data.offset_interval
    if interval.end < interval.start:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            f"its slice ends at offset {interval.end}, before its start {interval.start}",
        )


def added_data_is_not_empty(state: ChainState, block: HashedBlock, event: AddData) -> None:
    if (
        event.new_data is None
        and event.new_checkpoint is None
        and event.new_watermark is None
        and event.new_source_state is None
    ):
        raise ChainRuleBroken(
            "NoOpEvent", block, "it is empty: no data, checkpoint, watermark or source state"
        )


def execution_is_not_empty(state: ChainState, block: HashedBlock, event: ExecuteTransform) -> None:
    if event.new_data is None and event.new_checkpoint is None and event.new_watermark is None:
        raise ChainRuleBroken("NoOpEvent", block, "it is empty: no data, checkpoint or watermark")


def input_progress_is_no_repetition(
    state: ChainState, block: HashedBlock, event: ExecuteTransform
) -> None:
    for item in event.query_inputs:
        if item.new_offset is not None and item.new_block_hash is None:
            raise ChainRuleBroken(
                "InvalidEvent",
                block,
                f"offsets of input {item.dataset_id} advance without its blocks",
            )
        if item.new_block_hash is not None and item.new_block_hash == item.prev_block_hash:
            raise ChainRuleBroken(
                "InvalidEvent", block, f"input {item.dataset_id} repeats its previous block as new"
            )
        if item.new_offset is not None and item.new_offset == item.prev_offset:
            raise ChainRuleBroken(
                "InvalidEvent", block, f"input {item.dataset_id} repeats its previous offset as new"
            )


def watermark_never_goes_back(state: ChainState, block: HashedBlock, event: DataEvent) -> None:
    before, now = state.watermark, event.new_watermark
    if before is None:
        return
    if now is None:
        raise ChainRuleBroken(
            "WatermarkIsNotMonotonic",
            block,
            f"it has no watermark, the data before it had {before}",
            previous=str(before),
        )
    if now.ns < before.ns:
        raise ChainRuleBroken(
            "WatermarkIsNotMonotonic",
            block,
            f"its watermark {now} is earlier than {before}",
            previous=str(before),
            new=str(now),
        )


def offsets_continue(state: ChainState, block: HashedBlock, event: DataEvent) -> None:
    if state.has_data_blocks and event.prev_offset != state.last_offset:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            f"its previous offset is {_or_none(event.prev_offset)}, "
            f"the chain's last offset is {_or_none(state.last_offset)}",
        )


def first_data_has_no_previous_offset(
    state: ChainState, block: HashedBlock, event: DataEvent
) -> None:
    if not state.has_data_blocks and event.prev_offset is not None:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            f"its previous offset is {event.prev_offset}, but the chain holds no data yet",
        )


def schema_comes_before_data(state: ChainState, block: HashedBlock, event: DataEvent) -> None:
    if event.new_data is not None and state.schema is None:
        raise ChainRuleBroken("InvalidEvent", block, "it adds a slice before any SetDataSchema")


def added_checkpoint_continues(state: ChainState, block: HashedBlock, event: AddData) -> None:
    _checkpoint_continues(block, event, state.last_add_data)


def executed_checkpoint_continues(
    state: ChainState, block: HashedBlock, event: ExecuteTransform
) -> None:
    _checkpoint_continues(block, event, state.last_execution)


def _checkpoint_continues(block: HashedBlock, event: DataEvent, last: DataEvent | None) -> None:
    expected = _hash_of(last.new_checkpoint) if last is not None else None
    if event.prev_checkpoint != expected:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            f"its previous checkpoint is {_or_none(event.prev_checkpoint)}, "
            f"the last one is {_or_none(expected)}",
        )


def added_data_changes_something(state: ChainState, block: HashedBlock, event: AddData) -> None:
    last = state.last_add_data
    if (
        event.new_data is None
        and _hash_of(event.new_checkpoint) == event.prev_checkpoint
        and event.new_watermark == (last.new_watermark if last else None)
        and event.new_source_state == (last.new_source_state if last else None)
    ):
        raise ChainRuleBroken(
            "NoOpEvent", block, "no data, and checkpoint, watermark and source state are the same"
        )


def execution_changes_something(
    state: ChainState, block: HashedBlock, event: ExecuteTransform
) -> None:
    last = state.last_execution
    if (
        event.new_data is None
        and _hash_of(event.new_checkpoint) == event.prev_checkpoint
        and event.new_watermark == (last.new_watermark if last else None)
        and all(item.new_block_hash is None for item in event.query_inputs)
    ):
        raise ChainRuleBroken(
            "NoOpEvent", block, "no data, same checkpoint and watermark, and no input advanced"
        )


def inputs_are_the_declared_ones(
    state: ChainState, block: HashedBlock, event: ExecuteTransform
) -> None:
    if state.declared_inputs is None:
        return
    if tuple(item.dataset_id for item in event.query_inputs) != state.declared_inputs:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            "its inputs are not those of the transform, or stand in another order",
        )


def transform_comes_before_execution(
    state: ChainState, block: HashedBlock, event: ExecuteTransform
) -> None:
    if state.declared_inputs is None:
        raise ChainRuleBroken(
            "InvalidEvent", block, "it executes a transform, but there is no SetTransform before it"
        )


def inputs_continue(state: ChainState, block: HashedBlock, event: ExecuteTransform) -> None:
    before = _last_inputs(state)
    for item in event.query_inputs:
        if (last := before.get(item.dataset_id)) is None:
            continue
        if item.prev_block_hash != (last.new_block_hash or last.prev_block_hash):
            raise ChainRuleBroken(
                "InvalidEvent",
                block,
                f"blocks of input {item.dataset_id} do not continue the last execution",
            )
        offset = last.prev_offset if last.new_offset is None else last.new_offset
        if item.prev_offset != offset:
            raise ChainRuleBroken(
                "InvalidEvent",
                block,
                f"offsets of input {item.dataset_id} do not continue the last execution",
            )


def new_inputs_start_from_nothing(
    state: ChainState, block: HashedBlock, event: ExecuteTransform
) -> None:
    before = _last_inputs(state)
    for item in event.query_inputs:
        filled = item.prev_block_hash is not None or item.prev_offset is not None
        if filled and item.dataset_id not in before:
            raise ChainRuleBroken(
                "InvalidEvent",
                block,
                f"input {item.dataset_id} was never consumed, but a previous block or offset "
                "of it is named",
            )


def _last_inputs(state: ChainState) -> dict[DatasetId, ExecuteTransformInput]:
    last = state.last_execution
    return {item.dataset_id: item for item in last.query_inputs} if last else {}


def _hash_of(checkpoint: Checkpoint | None) -> Multihash | None:
    return None if checkpoint is None else checkpoint.physical_hash


def _or_none(value: object) -> object:
    return "none" if value is None else value
