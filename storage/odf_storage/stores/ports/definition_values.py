"""The author of a dataset's definition, whose access rights apply when the definition runs."""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.codec.blocks import encode_block
from odf_protocol.instant import Instant
from odf_protocol.metadata.block import MetadataBlock
from odf_protocol.metadata.events import SetPollingSource, SetTransform
from odf_protocol.multihash import Multihash

from .values import AccountId, Reach

Definition = SetTransform | SetPollingSource
"""An event that lets a dataset read other datasets, or external addresses with secrets."""
_EPOCH = Instant(0)


@dataclass(frozen=True, slots=True)
class Author:
    """An account, limited to the reach of its token. No account: an author on another node."""

    account: AccountId | None
    reach: Reach = Reach.NODE


NOBODY = Author(None)
"""The author of definitions that a mirror pulled, and of those without a known author."""


def definition_hash(definition: Definition) -> Multihash:
    """Return a hash that depends on the definition alone, not on the block that contains it."""
    block = MetadataBlock(
        system_time=_EPOCH, prev_block_hash=None, sequence_number=0, event=definition
    )
    return encode_block(block).hash
