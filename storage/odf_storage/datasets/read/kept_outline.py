"""What the outline of a long chain collects, kept beside the dataset: the next outline decodes only
the blocks that came since.

The file is derived from the chain, and any of them may be lost: one that cannot be read, or whose
last block is no longer in the history, is left out, and the outline is made of all blocks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, HashedBlock, OffsetInterval
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json

from ...runtime.logs import line
from ...stores.keyed.folder import Below
from ...stores.objects.layout import dataset_folder

if TYPE_CHECKING:
    from ...stores.ports import KeyedStore
    from ..dataset.dataset import Dataset

LONG = 1000
"""Number of blocks with data from which what they say is kept, and from which it is kept anew."""
MAX_BYTES = 64 << 20
"""Limit of the bytes of a file: some 150 for each block with data."""
_FORM = 1
_FOLDER, _KEY = "outline", "blocks.json"
_log = logging.getLogger("odf.read")


@dataclass(frozen=True, slots=True)
class OutlinedBlock:
    """What an outline needs of a block with data."""

    hash: Multihash
    sequence_number: int
    system_time: Instant
    data: DataSlice


class _Row(msgspec.Struct, frozen=True, array_like=True):
    hash: bytes
    sequence_number: int
    system_time: int
    logical_hash: bytes
    physical_hash: bytes
    start: int
    end: int
    size: int

    @classmethod
    def of(cls, block: OutlinedBlock) -> _Row:
        data = block.data
        return cls(
            block.hash.raw,
            block.sequence_number,
            block.system_time.ns,
            data.logical_hash.raw,
            data.physical_hash.raw,
            data.offset_interval.start,
            data.offset_interval.end,
            data.size,
        )

    def block(self) -> OutlinedBlock:
        data = DataSlice(
            logical_hash=Multihash.decode(self.logical_hash),
            physical_hash=Multihash.decode(self.physical_hash),
            offset_interval=OffsetInterval(start=self.start, end=self.end),
            size=self.size,
        )
        at = Instant(self.system_time)
        return OutlinedBlock(Multihash.decode(self.hash), self.sequence_number, at, data)


class _File(msgspec.Struct, frozen=True, array_like=True):
    form: int
    head: bytes
    data: list[_Row]
    others: list[tuple[int, bytes]]
    """Hashes of the blocks of schemas and sources, oldest first, each with the number of blocks
    with data before it."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The blocks that an outline needs, up to a head."""

    head: Multihash
    data: list[OutlinedBlock]
    others: list[tuple[int, HashedBlock]]


class KeptOutline:
    """The file of one dataset, among its projections."""

    def __init__(self, projections: KeyedStore, dataset: DatasetId) -> None:
        self._store = Below(projections, f"{dataset_folder(dataset)}/{_FOLDER}")

    def read(self, dataset: Dataset, head: Multihash) -> Collected | None:
        """Return what is kept of the history of `head`; None if there is nothing of use."""
        try:
            content = self._store.read(_KEY, most=MAX_BYTES)
            if content is None:
                return None
            kept = decode_json(content.raw, _File)
            last = Multihash.decode(kept.head)
            if kept.form != _FORM:
                return None
            dataset.path(after=last, upto=head)
            others = [(at, dataset.block(Multihash.decode(name))) for at, name in kept.others]
            return Collected(last, [row.block() for row in kept.data], others)
        except (NodeError, ValueError, msgspec.MsgspecError) as unusable:
            _log.info(line("a kept outline is not used", reason=str(unusable)[:200]))
            return None

    def write(self, found: Collected) -> None:
        """Keep what was collected. What cannot be kept is collected again."""
        rows = [_Row.of(each) for each in found.data]
        names = [(before, block.hash.raw) for before, block in found.others]
        content = msgspec.json.encode(_File(_FORM, found.head.raw, rows, names))
        if len(content) > MAX_BYTES:
            return
        try:
            self._store.put(_KEY, [content])
        except (NodeError, OSError) as failed:
            _log.warning(line("an outline is not kept", reason=str(failed)[:200]))
