"""Reasons why a block may not follow a chain: one error per family of rules, with its facts.

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
from ..metadata.block import HashedBlock


class ChainRuleBroken(BadInput):
    """The block may not follow this chain. `reason` says why in words.

    Facts: `rule` (name of the broken rule), `block` (hash), `sequenceNumber`, `event`
    (kind of the event), `reason`, and further facts of the subclass.
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
        """Set the rule that raised this error, and the origin of the rule; return the error."""
        self.rule = self.facts["rule"] = rule
        self.origin = origin
        return self


class FirstBlockMustBeSeed(ChainRuleBroken):
    """The first event of the chain is not `Seed`."""


class AppendingSeedBlockToNonEmptyChain(ChainRuleBroken):
    """A block after the first one has the event `Seed`."""


class PrevBlockNotFound(ChainRuleBroken):
    """The previous block named in the block is not the end of this chain."""


class SequenceIntegrity(ChainRuleBroken):
    """The number is not the next one. Facts: `prevBlockHash`, `prevNumber`, `nextNumber`."""


class SystemTimeIsNotMonotonic(ChainRuleBroken):
    """The system time of the block is earlier than that of the block before it."""


class WatermarkIsNotMonotonic(ChainRuleBroken):
    """The watermark decreased or is missing."""


class OffsetsAreNotSequential(ChainRuleBroken):
    """A slice starts at the wrong offset. Facts: `expected`, `new` (first offsets)."""


class InvalidEvent(ChainRuleBroken):
    """The event breaks another rule, which the reason describes."""


class NoOpEvent(ChainRuleBroken):
    """The event changes nothing, so it must not be recorded."""
