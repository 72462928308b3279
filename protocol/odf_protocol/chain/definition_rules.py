"""Rules of the events that define a dataset: sources, transform, schema, vocabulary.

Each rule is a function of (state, block, event); `rules.py` has the order in which they are
checked.

Reasons why a block may not follow a chain: one error per family of rules, with its facts.

    ChainRuleBroken
    ├── FirstBlockMustBeSeed               no previous block, and the event is not Seed
    ├── AppendingSeedBlockToNonEmptyChain  previous block given, and the event is Seed
    ├── PrevBlockNotFound                  the previous block is not the end of this chain
    ├── SequenceIntegrity                  the number is not previous + 1, or the first not 0
    ├── SystemTimeIsNotMonotonic           earlier than the previous block
    ├── WatermarkIsNotMonotonic            the watermark decreased or is missing
    ├── OffsetsAreNotSequential            a slice starts at the wrong offset
    ├── InvalidEvent                       any other broken rule of an event
    └── NoOpEvent                          the event changes nothing

Source: ODF "Metadata chain"; names as reference peers report them.
"""

from __future__ import annotations

from ..errors import BadInput
from ..metadata.events import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    HashedBlock,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Transform,
)
from ..metadata.schema import DataSchema
from ..metadata.sources import FetchStepEthereumLogs
from .schema_evolution import incompatibility, is_same, odf_schema, unfit_system_columns
from .state import ChainState, Vocab


class ChainRuleBroken(BadInput):
    """The block may not follow this chain. `reason` says why in words.

    Facts: `rule` (name of the broken rule), `block` (hash), `sequenceNumber`, `event`
    (kind of the event), `reason`, and further facts of the code.
    """

    def __init__(self, code: str, block: HashedBlock, reason: str, /, **facts: object) -> None:
        event = type(block.event).__name__
        super().__init__(
            code,
            f"block {block.sequence_number} ({block.hash}, {event}) "
            f"may not follow this chain: {reason}",
            block=str(block.hash),
            sequenceNumber=block.sequence_number,
            event=event,
            reason=reason,
            **facts,
        )
        self.block, self.reason, self.rule, self.origin = block.hash, reason, "", ""
        self.sequence_number = block.sequence_number

    def named(self, rule: str, origin: str) -> ChainRuleBroken:
        """Set the rule that raised this error, and the origin of the rule; return the error."""
        self.rule = self.facts["rule"] = rule
        self.origin = origin
        return self


# ruff: noqa: ARG001 - all rules have the same parameters, and few need all three


MAX_PUSH_SOURCES = 1000
"""Limit of active push sources of one dataset; keeps the state of a hostile chain small."""

Source = SetPollingSource | AddPushSource


def preprocess_is_normalised(state: ChainState, block: HashedBlock, event: Source) -> None:
    if event.preprocess is not None:
        _check_normalised(block, event.preprocess)


def transform_is_normalised(state: ChainState, block: HashedBlock, event: SetTransform) -> None:
    _check_normalised(block, event.transform)


def _check_normalised(block: HashedBlock, transform: Transform) -> None:
    """Require `queries` instead of `query`, with an alias for every step but the last."""
    if transform.query is not None:
        raise ChainRuleBroken(
            "InvalidEvent", block, "its SQL is not normalised: query must be one of queries"
        )
    if not transform.queries:
        raise ChainRuleBroken("InvalidEvent", block, "its SQL has no queries")
    *steps, last = transform.queries
    if any(step.alias is None for step in steps):
        raise ChainRuleBroken(
            "InvalidEvent", block, "every SQL step but the last must have an alias"
        )
    if last.alias is not None:
        raise ChainRuleBroken("InvalidEvent", block, "the last SQL step must not have an alias")


def one_schema_notation(state: ChainState, block: HashedBlock, event: Source) -> None:
    if event.read.schema is not None and event.read.ddl_schema is not None:
        raise ChainRuleBroken("InvalidEvent", block, "its read step has both schema and ddlSchema")


def ethereum_source_names_a_chain(
    state: ChainState, block: HashedBlock, event: SetPollingSource
) -> None:
    fetch = event.fetch
    if isinstance(fetch, FetchStepEthereumLogs) and fetch.chain_id is None and not fetch.node_url:
        raise ChainRuleBroken(
            "InvalidEvent", block, "an Ethereum logs source needs a chainId or a nodeUrl"
        )


def transform_has_inputs(state: ChainState, block: HashedBlock, event: SetTransform) -> None:
    if not event.inputs:
        raise ChainRuleBroken("InvalidEvent", block, "a transform needs at least one input")


def transform_inputs_are_resolved(
    state: ChainState, block: HashedBlock, event: SetTransform
) -> None:
    for item in event.inputs:
        if item.dataset_ref.id is None:
            raise ChainRuleBroken(
                "InvalidEvent", block, f"input {item.dataset_ref} is named by alias, not by id"
            )
        if item.alias is None:
            raise ChainRuleBroken("InvalidEvent", block, f"input {item.dataset_ref} has no alias")


def transform_inputs_differ(state: ChainState, block: HashedBlock, event: SetTransform) -> None:
    ids = [str(item.dataset_ref).lower() for item in event.inputs]
    if len(set(ids)) != len(ids):
        raise ChainRuleBroken("InvalidEvent", block, "one dataset is an input twice")


def push_excludes_polling(state: ChainState, block: HashedBlock, event: AddPushSource) -> None:
    if state.polling_source is not None:
        raise ChainRuleBroken(
            "InvalidEvent", block, "a push source cannot be added while a polling source is active"
        )


def push_source_changes_something(
    state: ChainState, block: HashedBlock, event: AddPushSource
) -> None:
    if state.push_sources.get(event.source_name) == event:
        raise ChainRuleBroken(
            "NoOpEvent", block, f"push source {event.source_name!r} is defined like this already"
        )


def push_sources_stay_few(state: ChainState, block: HashedBlock, event: AddPushSource) -> None:
    sources = state.push_sources
    if len(sources) >= MAX_PUSH_SOURCES and event.source_name not in sources:
        raise ChainRuleBroken(
            "InvalidEvent", block, f"a dataset has at most {MAX_PUSH_SOURCES} active push sources"
        )


def polling_excludes_push(state: ChainState, block: HashedBlock, event: SetPollingSource) -> None:
    if state.push_sources:
        raise ChainRuleBroken(
            "InvalidEvent", block, "a polling source cannot be set while a push source is active"
        )


def polling_source_changes_something(
    state: ChainState, block: HashedBlock, event: SetPollingSource
) -> None:
    if state.polling_source == event:
        raise ChainRuleBroken("NoOpEvent", block, "the polling source is defined like this already")


def disabled_push_source_is_active(
    state: ChainState, block: HashedBlock, event: DisablePushSource
) -> None:
    if event.source_name not in state.push_sources:
        raise ChainRuleBroken(
            "InvalidEvent", block, f"there is no active push source {event.source_name!r}"
        )


def disabled_polling_source_is_active(
    state: ChainState, block: HashedBlock, event: DisablePollingSource
) -> None:
    if state.polling_source is None:
        raise ChainRuleBroken("InvalidEvent", block, "there is no active polling source")


def schema_only_grows(state: ChainState, block: HashedBlock, event: SetDataSchema) -> None:
    """Compare as other nodes do: types only if the columns are the same in the same order."""
    if event.schema is None or state.schema is None:
        return
    try:
        current = state.data_schema
    except BadInput as problem:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            f"the schema before it cannot be read, so it has no successor ({problem})",
        ) from problem
    if current is None:
        return
    if is_same(current, event.schema):
        raise ChainRuleBroken("NoOpEvent", block, "the schema is the same as before")
    _check_compatible(state, block, current, event.schema, only_aligned=True)


def common_columns_keep_their_types(
    state: ChainState, block: HashedBlock, event: SetDataSchema
) -> None:
    """Compare types also if columns were added or moved, which other nodes accept."""
    current = _readable(state.schema)
    if event.schema is not None and current is not None:
        _check_compatible(state, block, current, event.schema, only_aligned=False)


def _check_compatible(
    state: ChainState,
    block: HashedBlock,
    current: DataSchema,
    new: DataSchema,
    *,
    only_aligned: bool,
) -> None:
    difference = incompatibility(
        current, new, forgive_optionality=not state.has_odf_schema, only_aligned=only_aligned
    )
    if difference is not None:
        raise ChainRuleBroken(
            "InvalidEvent", block, f"its schema does not fit the data before it: {difference}"
        )


def system_columns_are_declared(
    state: ChainState, block: HashedBlock, event: SetDataSchema
) -> None:
    """Require the system columns of the first schema; later schemas cannot remove them."""
    if state.schema is not None:
        return
    schema = _readable(event)
    if schema is None:
        return
    problems = unfit_system_columns(schema, state.vocab.columns)
    if len({field.name for field in schema.fields}) < len(schema.fields):
        problems.append("two columns share one name")
    if problems:
        raise ChainRuleBroken("InvalidEvent", block, "; ".join(problems))


def _readable(event: SetDataSchema | None) -> DataSchema | None:
    """Return the schema in ODF form; None if there is none, or if its form cannot be converted."""
    try:
        return None if event is None else odf_schema(event)
    except BadInput:
        return None


def schema_has_one_form(state: ChainState, block: HashedBlock, event: SetDataSchema) -> None:
    if (event.schema is None) == (event.raw_arrow_schema is None):
        raise ChainRuleBroken("InvalidEvent", block, "it must hold either schema or rawArrowSchema")


def vocabulary_keeps_its_columns(state: ChainState, block: HashedBlock, event: SetVocab) -> None:
    if state.schema is not None and Vocab.of(event).columns != state.vocab.columns:
        raise ChainRuleBroken(
            "InvalidEvent",
            block,
            "it renames system columns, but the dataset has a schema with the old names",
        )
