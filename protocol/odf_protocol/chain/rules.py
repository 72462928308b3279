"""The rules of the metadata chain as a list; the first broken rule is reported.

The order is part of the contract, so that every node refuses a block with several faults for
the same one. First are rules about the block alone, then those that a walk back over the chain
can check, then those that need the end of that walk, and last the rules that other nodes do not
have. Source: ODF "Metadata chain"; order as reference peers check.

Each rule has an origin. Blocks authored here keep all rules. A received chain must keep the rules
of the specification and the limits of this node. It may break the rules of this project, which
verification reports as warnings.

Rules of every block, whatever its event: seed, links, numbers, system time, kind.

Each rule is a function of (state, block, event) that raises or returns nothing; `rules.py` has
the order in which they are checked.

Authoring: turns events into blocks with number, link, time and hash, and checks the rules.

Authored blocks keep all rules, including those that other nodes do not check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..codec.blocks import encode_block
from ..instant import Instant
from ..metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
    UnknownEvent,
)
from . import data_rules, definition_rules
from .definition_rules import ChainRuleBroken
from .state import CHANGES, EMPTY, ChainState

# ruff: noqa: ARG001 - all rules have the same parameters, and few need all three


def seed_comes_first(state: ChainState, block: HashedBlock, event: object) -> None:
    if block.block.prev_block_hash is None and not isinstance(event, Seed):
        raise ChainRuleBroken(
            "FirstBlockMustBeSeed", block, "it names no previous block, and its event is not Seed"
        )


def seed_comes_once(state: ChainState, block: HashedBlock, event: object) -> None:
    linked = block.block.prev_block_hash is not None or state.head is not None
    if linked and (isinstance(event, Seed) or _is_newer_seed(event)):
        raise ChainRuleBroken(
            "AppendingSeedBlockToNonEmptyChain", block, "the chain has its Seed already"
        )


def _is_newer_seed(event: object) -> bool:
    return isinstance(event, UnknownEvent) and event.name == "Seed"


def numbers_begin_at_zero(state: ChainState, block: HashedBlock, event: object) -> None:
    inner = block.block
    if inner.prev_block_hash is None and inner.sequence_number != 0:
        raise ChainRuleBroken(
            "SequenceIntegrity",
            block,
            f"the first block has number 0, not {inner.sequence_number}",
            nextNumber=inner.sequence_number,
        )


def previous_block_is_the_head(state: ChainState, block: HashedBlock, event: object) -> None:
    prev = block.block.prev_block_hash
    # Identity first, which is faster: a chain decoded in one pass shares its hashes.
    if prev is not None and prev is not state.head and prev != state.head:
        end = f"ends with {state.head}" if state.head else "is empty"
        raise ChainRuleBroken(
            "PrevBlockNotFound",
            block,
            f"its previous block {prev} was not found, the chain {end}",
            prevBlockHash=str(prev),
        )


def numbers_have_no_gaps(state: ChainState, block: HashedBlock, event: object) -> None:
    inner = block.block
    before = state.sequence_number
    if before is not None and inner.sequence_number != before + 1:
        raise ChainRuleBroken(
            "SequenceIntegrity",
            block,
            f"number {before + 1} comes after {before}, not {inner.sequence_number}",
            prevBlockHash=None if state.head is None else str(state.head),
            prevNumber=before,
            nextNumber=inner.sequence_number,
        )


def system_time_never_goes_back(state: ChainState, block: HashedBlock, event: object) -> None:
    before, now = state.system_time, block.block.system_time
    if before is not None and now.ns < before.ns:
        raise ChainRuleBroken(
            "SystemTimeIsNotMonotonic",
            block,
            f"its system time {now} is earlier than {before} of the block before it",
            previous=str(before),
            new=str(now),
        )


def only_a_root_receives_data(state: ChainState, block: HashedBlock, event: object) -> None:
    if state.kind is DatasetKind.Derivative:
        raise ChainRuleBroken(
            "InvalidEvent", block, f"{type(event).__name__} has no place in a derivative dataset"
        )


def only_a_derivative_transforms(state: ChainState, block: HashedBlock, event: object) -> None:
    if state.kind is DatasetKind.Root:
        raise ChainRuleBroken(
            "InvalidEvent", block, f"{type(event).__name__} has no place in a root dataset"
        )


REPORT_LIMIT = 10_000
"""Limit of broken rules in a report."""

Check = Callable[[ChainState, HashedBlock, Any], None]


class RuleOrigin(StrEnum):
    """The source of a rule, which decides for which chains it applies."""

    SPEC = "spec"
    """The specification, as reference peers check it: applies to every chain."""
    OURS = "ours"
    """This project, where other nodes do not check: applies to blocks authored here."""
    LIMIT = "limit"
    """A limit of this node: applies to every chain."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check, the events that it applies to (empty: all), and the events whose history it needs.

    If the chain contains one of the latter in a form that is not understood, the rule is skipped.
    """

    check: Check
    about: tuple[type, ...] = ()
    relies_on: tuple[type, ...] = ()
    origin: RuleOrigin = RuleOrigin.SPEC

    @property
    def name(self) -> str:
        return self.check.__name__


DATA = (AddData, ExecuteTransform)
SOURCES = (SetPollingSource, AddPushSource)
ALL_SOURCES = (*SOURCES, DisablePollingSource, DisablePushSource)
ADDING = (AddData,)
EXECUTING = (ExecuteTransform,)
TRANSFORMING = (SetTransform, ExecuteTransform)

_OF_THE_BLOCK_ALONE = (
    Rule(data_rules.slice_starts_after_previous_offset, DATA),
    Rule(data_rules.slice_has_rows, DATA),
    Rule(seed_comes_first),
    Rule(seed_comes_once),
    Rule(numbers_begin_at_zero),
    Rule(data_rules.added_data_is_not_empty, ADDING),
    Rule(data_rules.execution_is_not_empty, EXECUTING),
    Rule(definition_rules.preprocess_is_normalised, SOURCES),
    Rule(definition_rules.transform_is_normalised, (SetTransform,)),
    Rule(definition_rules.one_schema_notation, SOURCES),
    Rule(definition_rules.ethereum_source_names_a_chain, (SetPollingSource,)),
    Rule(definition_rules.transform_has_inputs, (SetTransform,)),
    Rule(definition_rules.transform_inputs_are_resolved, (SetTransform,)),
    Rule(definition_rules.transform_inputs_differ, (SetTransform,)),
    Rule(data_rules.input_progress_is_no_repetition, EXECUTING),
)

_ON_THE_WAY_BACK = (
    Rule(previous_block_is_the_head),
    Rule(data_rules.inputs_are_the_declared_ones, EXECUTING, TRANSFORMING),
    Rule(numbers_have_no_gaps),
    Rule(system_time_never_goes_back),
    Rule(data_rules.watermark_never_goes_back, DATA, DATA),
    Rule(data_rules.offsets_continue, DATA, DATA),
    Rule(definition_rules.push_excludes_polling, (AddPushSource,), ALL_SOURCES),
    Rule(definition_rules.push_source_changes_something, (AddPushSource,), ALL_SOURCES),
    Rule(definition_rules.polling_excludes_push, (SetPollingSource,), ALL_SOURCES),
)

_AT_THE_END_OF_THE_WAY = (
    Rule(data_rules.schema_comes_before_data, DATA, (SetDataSchema,)),
    Rule(data_rules.transform_comes_before_execution, EXECUTING, TRANSFORMING),
    Rule(data_rules.added_checkpoint_continues, ADDING, ADDING),
    Rule(data_rules.executed_checkpoint_continues, EXECUTING, EXECUTING),
    Rule(data_rules.added_data_changes_something, ADDING, ADDING),
    Rule(data_rules.execution_changes_something, EXECUTING, EXECUTING),
    Rule(data_rules.inputs_continue, EXECUTING, EXECUTING),
    Rule(definition_rules.schema_only_grows, (SetDataSchema,), (SetDataSchema,)),
    Rule(definition_rules.schema_has_one_form, (SetDataSchema,)),
)

_OF_THIS_NODE = (
    Rule(data_rules.first_data_has_no_previous_offset, DATA, DATA, RuleOrigin.OURS),
    Rule(data_rules.new_inputs_start_from_nothing, EXECUTING, EXECUTING, RuleOrigin.OURS),
    Rule(definition_rules.push_sources_stay_few, (AddPushSource,), (), RuleOrigin.LIMIT),
    Rule(
        definition_rules.polling_source_changes_something,
        (SetPollingSource,),
        ALL_SOURCES,
        RuleOrigin.OURS,
    ),
    Rule(
        definition_rules.disabled_push_source_is_active,
        (DisablePushSource,),
        ALL_SOURCES,
        RuleOrigin.OURS,
    ),
    Rule(
        definition_rules.disabled_polling_source_is_active,
        (DisablePollingSource,),
        ALL_SOURCES,
        RuleOrigin.OURS,
    ),
    Rule(
        definition_rules.common_columns_keep_their_types,
        (SetDataSchema,),
        (SetDataSchema,),
        RuleOrigin.OURS,
    ),
    Rule(
        definition_rules.vocabulary_keeps_its_columns,
        (SetVocab,),
        (SetVocab, SetDataSchema),
        RuleOrigin.OURS,
    ),
    Rule(only_a_root_receives_data, (*ADDING, *SOURCES), (Seed,), RuleOrigin.OURS),
    Rule(only_a_derivative_transforms, TRANSFORMING, (Seed,), RuleOrigin.OURS),
)

_OF_AUTHORS = (
    Rule(
        definition_rules.system_columns_are_declared,
        (SetDataSchema,),
        (SetVocab, SetDataSchema),
        RuleOrigin.OURS,
    ),
)
"""Rules for newly authored blocks only, because older data may lack these columns."""

RULES = (*_OF_THE_BLOCK_ALONE, *_ON_THE_WAY_BACK, *_AT_THE_END_OF_THE_WAY, *_OF_THIS_NODE)

RulesByEvent = dict[type, tuple[Rule, ...]]

_BY_EVENT: RulesByEvent = {
    event: tuple(rule for rule in RULES if not rule.about or event in rule.about)
    for event in CHANGES
}
_FOR_AUTHORS: RulesByEvent = {
    event: (*rules, *(rule for rule in _OF_AUTHORS if event in rule.about))
    for event, rules in _BY_EVENT.items()
}
_FOR_RECEIVED: RulesByEvent = {
    event: tuple(rule for rule in rules if rule.origin is not RuleOrigin.OURS)
    for event, rules in _BY_EVENT.items()
}


def append(state: ChainState, block: HashedBlock) -> ChainState:
    """Return the state after `block`.

    Raises:
        ChainRuleBroken: the block may not follow; the subclass of the first broken rule.
    """
    _check(_BY_EVENT, state, block)
    return state.after(block)


def append_received(state: ChainState, block: HashedBlock) -> ChainState:
    """As `append`, for a block from another node, which need not keep the rules of this project."""
    _check(_FOR_RECEIVED, state, block)
    return state.after(block)


def append_authored(state: ChainState, block: HashedBlock) -> ChainState:
    """As `append`, for a newly authored block."""
    _check(_FOR_AUTHORS, state, block)
    return state.after(block)


def fold(blocks: Iterable[HashedBlock], state: ChainState = EMPTY) -> ChainState:
    """Return the state after all blocks, oldest first. Raises the same errors as `append`."""
    for block in blocks:
        state = append(state, block)
    return state


def fold_received(blocks: Iterable[HashedBlock], state: ChainState = EMPTY) -> ChainState:
    """As `fold`, for blocks from another node."""
    for block in blocks:
        state = append_received(state, block)
    return state


def report(
    blocks: Iterable[HashedBlock], state: ChainState = EMPTY, *, limit: int = REPORT_LIMIT
) -> list[ChainRuleBroken]:
    """Return every broken rule, in chain order; blocks that break a rule are appended anyway.

    A fault may be reported again for later blocks that build on it. At most `limit` errors are
    returned. Each has the `origin` of its rule.
    """
    broken: list[ChainRuleBroken] = []
    for block in blocks:
        broken.extend(_broken(state, block))
        if len(broken) >= limit:
            return broken[:limit]
        state = state.after(block)
    return broken


def _broken(state: ChainState, block: HashedBlock) -> Iterable[ChainRuleBroken]:
    event = block.block.event
    for rule in _applicable(state, _BY_EVENT[type(event)]):
        try:
            rule.check(state, block, event)
        except ChainRuleBroken as broken:
            yield broken.named(rule.name, rule.origin)


def _check(table: RulesByEvent, state: ChainState, block: HashedBlock) -> None:
    event = block.block.event
    for rule in _applicable(state, table[type(event)]):
        try:
            rule.check(state, block, event)
        except ChainRuleBroken as broken:
            broken.named(rule.name, rule.origin)
            raise


def _applicable(state: ChainState, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    if not state.clouded:
        return rules
    return tuple(
        rule for rule in rules if not any(kind.__name__ in state.clouded for kind in rule.relies_on)
    )


def author(
    state: ChainState, events: Iterable[MetadataEvent], *, system_time: Instant
) -> tuple[list[HashedBlock], ChainState]:
    """Return the blocks for the events, oldest first, and the state after them.

    All blocks get `system_time`. A caller whose clock may be slow passes the later one of the
    current time and `state.system_time`.

    Raises:
        ChainRuleBroken: an event may not follow, or `system_time` is before the state's.
        Unencodable: a block cannot represent a value.
    """
    blocks: list[HashedBlock] = []
    for event in events:
        number = 0 if state.sequence_number is None else state.sequence_number + 1
        block = encode_block(
            MetadataBlock(
                system_time=system_time,
                prev_block_hash=state.head,
                sequence_number=number,
                event=event,
            )
        )
        state = append_authored(state, block)
        blocks.append(block)
    return blocks, state
