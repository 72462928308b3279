"""The plan of a poll: a pure function of the chain's state and the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odf_protocol.chain.state import ChainState
from odf_protocol.metadata.events import SetPollingSource, SourceState
from odf_protocol.metadata.sources import (
    FetchStepMqtt,
    FetchStepUrl,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_protocol.sources.source_marks import (
    DEFINITION_KEY,
    body_hash,
    definition_mark,
    is_defined_anew,
    marks_of,
)

SOURCE_NAME = "default"
"""Source name in states of the polling source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPlan:
    """A fetch to make, and the source state from which it continues."""

    source: SetPollingSource
    state: SourceState | None
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What the last block notes of its bytes (`odf_protocol/sources/source_marks.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToPoll:
    """Reason why there is no fetch to make."""

    uncacheable: bool = False
    no_source_defined: bool = False


def plan_poll(state: ChainState, *, fetch_uncacheable: bool = False) -> PollPlan | NothingToPoll:
    """Plan the next fetch.

    A dataset with data whose last block tells nothing of what was fetched, neither a source state
    nor the hash of the bytes, is not polled unless the request demands it, because the fetch would
    return the same rows again. States with the name of another source do not count.

    Raises:
        NotUnderstood: the chain holds events of a newer writer.
    """
    state.require_understood()
    source = state.polling_source
    if source is None:
        return NothingToPoll(no_source_defined=True)
    last = state.last_source_state
    if last is not None and last.source_name != SOURCE_NAME:
        last = None
    marks = marks_of(state.last_add_data)
    remembers = last is not None or isinstance(source.fetch, FetchStepMqtt) or body_hash(marks)
    if state.last_offset is not None and not remembers and not fetch_uncacheable:
        return NothingToPoll(uncacheable=True)
    if isinstance(source.fetch, FetchStepUrl) and is_defined_anew(
        {DEFINITION_KEY: definition_mark(source)}, marks
    ):
        last = None  # a server that has nothing new would keep the new definition from its bytes
    return PollPlan(source=source, state=last, marks=marks)


def takes_again(source: SetPollingSource) -> bool:
    """Whether rows that are read again are known or corrected by their keys, rather than added."""
    return isinstance(
        source.merge, MergeStrategyLedger | MergeStrategySnapshot | MergeStrategyUpsertStream
    )
