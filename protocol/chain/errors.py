"""Why a block may not follow a chain: one error per family of rules, each with its facts.

    ChainRuleBroken
    ├── FirstBlockMustBeSeed               no previous block, and the event is not Seed
    ├── AppendingSeedBlockToNonEmptyChain  previous block given, and the event is Seed
    ├── PrevBlockNotFound                  the previous block is not the end of this chain
    ├── SequenceIntegrity                  the number is not previous + 1, or the first not 0
    ├── SystemTimeIsNotMonotonic           earlier than the previous block
    ├── WatermarkIsNotMonotonic            went back or vanished
    ├── OffsetsAreNotSequential            a slice starts at the wrong place
    ├── InvalidEvent                       any other broken rule of an event
    └── NoOpEvent                          the event changes nothing

Source: ODF "Metadata chain"; names as reference peers report them.
"""

from __future__ import annotations

from ..errors import BadInput
from ..metadata.block import HashedBlock


class ChainRuleBroken(BadInput):
    """A block that may not follow this chain. `reason` says why in words.

    Facts: `rule` (name of the broken rule), `block` (hash), `sequenceNumber`, `event`
    (kind of the event), `reason`, and what the leaf adds.
    """

    def __init__(self, block: HashedBlock, reason: str, **facts: object) -> None:
        event = type(block.event).__name__
        super().__init__(
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
        """The same error, knowing which rule raised it, and where that comes from."""
        self.rule = self.facts["rule"] = rule
        self.origin = origin
        return self


class FirstBlockMustBeSeed(ChainRuleBroken):
    """A chain begins with something else than `Seed`."""


class AppendingSeedBlockToNonEmptyChain(ChainRuleBroken):
    """`Seed` in a place that is not the first."""


class PrevBlockNotFound(ChainRuleBroken):
    """The block names a previous block that is not the end of this chain."""


class SequenceIntegrity(ChainRuleBroken):
    """Numbers leave a gap or repeat. Facts: `prevBlockHash`, `prevNumber`, `nextNumber`."""


class SystemTimeIsNotMonotonic(ChainRuleBroken):
    """The block says it is older than the one before it."""


class WatermarkIsNotMonotonic(ChainRuleBroken):
    """The watermark went back or vanished."""


class OffsetsAreNotSequential(ChainRuleBroken):
    """A slice starts at the wrong place. Facts: `expected`, `new` (first offsets)."""


class InvalidEvent(ChainRuleBroken):
    """The event breaks another rule; the reason says which."""


class NoOpEvent(ChainRuleBroken):
    """The event changes nothing, so it may not be recorded."""
