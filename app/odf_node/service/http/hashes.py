"""Hashes in the addresses of requests: of a block, or of an object."""

from __future__ import annotations

from odf_protocol.errors import BadInput
from odf_protocol.multihash import SHA3_256, MalformedHash, MalformedMultibase, Multihash


class UnreadableHash(BadInput):
    """An address does not end in a SHA3-256 multihash. The response is plain text."""


def parse_hash(text: str) -> Multihash:
    """Parse a SHA3-256 multihash. Raises `UnreadableHash`."""
    try:
        parsed = Multihash.parse(text)
    except (MalformedHash, MalformedMultibase) as broken:
        raise UnreadableHash(f"Invalid hash: {broken.message}") from None
    if parsed.code != SHA3_256 or len(parsed.digest) != 32:
        raise UnreadableHash("Invalid hash: objects are named by their SHA3-256")
    return parsed
