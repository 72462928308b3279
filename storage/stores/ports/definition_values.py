"""Who defined what a dataset is made by: the author whose rights count when it runs."""

from __future__ import annotations

from dataclasses import dataclass

from odf_node.protocol.codec.blocks import encode_block
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.block import MetadataBlock
from odf_node.protocol.metadata.events import SetPollingSource, SetTransform
from odf_node.protocol.multihash import Multihash

from .values import AccountId, Reach

Definition = SetTransform | SetPollingSource
"""What makes a dataset read something: other datasets, or places elsewhere with secrets."""
_EPOCH = Instant(0)


@dataclass(frozen=True, slots=True)
class Author:
    """An account, as far as its token reached; no account: somebody on another node."""

    account: AccountId | None
    reach: Reach = Reach.NODE


NOBODY = Author(None)
"""The author of what came by a mirror, and of what nobody is known to have defined."""


def definition_hash(definition: Definition) -> Multihash:
    """The same for the same definition, in whichever block it is."""
    block = MetadataBlock(
        system_time=_EPOCH, prev_block_hash=None, sequence_number=0, event=definition
    )
    return encode_block(block).hash
