"""Hashes that a request names: of a block, or of an object."""

from __future__ import annotations

from odf_node.protocol.errors import BadInput
from odf_node.protocol.multihash import SHA3_256, MalformedHash, MalformedMultibase, Multihash


class UnreadableHash(BadInput):
    """An address that ends in no hash of ours; answered as text."""


def parse_hash(text: str) -> Multihash:
    """A SHA3-256 multihash. Raises `UnreadableHash`."""
    try:
        parsed = Multihash.parse(text)
    except (MalformedHash, MalformedMultibase) as broken:
        raise UnreadableHash(f"Invalid hash: {broken.message}") from None
    if parsed.code != SHA3_256 or len(parsed.digest) != 32:
        raise UnreadableHash("Invalid hash: objects are named by their SHA3-256")
    return parsed
