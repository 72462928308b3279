"""Blocks of the metadata chain, and the manifest from which a dataset is created.

A `HashedBlock` keeps the bytes it was decoded from; these bytes are stored, hashed, bundled and
served. Decoding only reads a block; only newly authored blocks are encoded.
Source: ODF "MetadataBlock", "DatasetSnapshot", "Manifest".
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..errors import BadInput
from ..identity import DatasetAlias
from ..instant import Instant
from ..multihash import Multihash
from .events import DatasetKind, MetadataEvent
from .table import Table, Variant

BlockVersion = Literal[2, 3]
"""Manifest versions that can be read; they differ only in the alignment of timestamps."""
WRITTEN_VERSION: BlockVersion = 3


class UnknownEvent(Variant, tag="Unknown", frozen=True, kw_only=True):
    """An event, or a part of one, that only newer writers know.

    The block can still be stored and served; code that needs its meaning raises `NotUnderstood`.
    """

    discriminator: int
    name: str | None = None
    detail: str = ""


class NotUnderstood(BadInput):
    """A newer peer wrote the event of the block, and its meaning is unknown here."""


class MetadataBlock(Table, frozen=True, kw_only=True):
    """One link of the chain."""

    system_time: Instant
    prev_block_hash: Multihash | None = None
    sequence_number: int
    event: MetadataEvent | UnknownEvent


class DatasetSnapshot(Table, frozen=True, kw_only=True):
    """What a dataset is created from: name, kind and its first events."""

    name: DatasetAlias
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...]


class HashedBlock(Struct, frozen=True, gc=False):
    """A block with its hash and the exact bytes in which it was received."""

    hash: Multihash
    raw: bytes
    block: MetadataBlock
    version: BlockVersion = WRITTEN_VERSION

    @property
    def event(self) -> MetadataEvent | UnknownEvent:
        return self.block.event

    @property
    def prev(self) -> Multihash | None:
        return self.block.prev_block_hash

    @property
    def sequence_number(self) -> int:
        return self.block.sequence_number
