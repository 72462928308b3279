"""What one poll is to do: a pure function of the chain's state and the request."""

from __future__ import annotations

from dataclasses import dataclass

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.metadata.data import SourceState
from odf_node.protocol.metadata.events import SetPollingSource
from odf_node.protocol.metadata.sources import FetchStepMqtt

SOURCE_NAME = "default"
"""How states of the polling source are signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPlan:
    """A fetch to make, from where the source left off."""

    source: SetPollingSource
    state: SourceState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToPoll:
    """Why there is no fetch to make."""

    uncacheable: bool = False
    no_source_defined: bool = False


def plan_poll(state: ChainState, *, fetch_uncacheable: bool = False) -> PollPlan | NothingToPoll:
    """Plan the next fetch.

    A dataset with data whose last block does not tell where the source left off is not
    polled unless that is asked for: it would be given the same rows again. States that
    other sources signed are not this one's.

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
    remembers = last is not None or isinstance(source.fetch, FetchStepMqtt)
    if state.last_offset is not None and not remembers and not fetch_uncacheable:
        return NothingToPoll(uncacheable=True)
    return PollPlan(source=source, state=last)
