"""Blocks of the metadata chain, and the manifest a dataset is created from.

A `HashedBlock` keeps the bytes it was made of: those are what is stored, hashed, bundled
and served. Decoding is for looking; encoding is for blocks we author ourselves.
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
"""Manifest versions that can be read; they differ in the alignment of timestamps only."""
WRITTEN_VERSION: BlockVersion = 3


class UnknownEvent(Variant, tag="Unknown", frozen=True, kw_only=True):
    """An event, or a part of one, that a newer writer knows and we do not.

    The block stays storable and servable; whatever needs its meaning raises `NotUnderstood`.
    """

    discriminator: int
    name: str | None = None
    detail: str = ""


class NotUnderstood(BadInput):
    """A block whose event was written by a newer peer; its meaning is unknown here."""


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
    """A block with its hash and the exact bytes it came in."""

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
