"""Decode a block from the bytes that the index stores."""

from __future__ import annotations

from odf_protocol.codec.blocks import decode_block
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from ..ports.errors import BlockDamaged


def decode_stored(block: Multihash, raw: bytes) -> HashedBlock:
    """Decode a block and check its hash. Raises `BlockDamaged`."""
    try:
        return decode_block(bytes(raw), expected=block)
    except BadInput as reason:
        raise BlockDamaged(block, reason.message) from reason
