"""Decide which blocks of a chain are merged: pure functions of the blocks.

Hard compaction merges consecutive `AddData` blocks, from the newest slice back, until the next
slice would exceed a limit; any other block is a barrier and stays. Blocks with a watermark or a
source state but no rows are merged with neighbouring slices; they lose nothing, since the newest
block of a merge decides. Compaction to metadata only drops every block with data.

Source: ODF "Compaction"; `transform.md` 9.

Make the blocks of a planned history and move the head onto them, or change nothing.

Blocks before the first change keep their hashes; later blocks get new numbers and links and keep
their system times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from odf_protocol.chain.rules import append_received
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.codec.blocks import encode_block
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
)
from odf_protocol.multihash import Multihash
from odf_protocol.references import SUMMARY_KEY
from odf_protocol.sources.source_marks import KEYS, merged_marks

from ...stores.ports.errors import RefConflict
from ..dataset.dataset import Dataset, check_objects, put_blocks
from ..node.stores import Stores

COUNTS = ("numObjectsNaive", "sizeNaive")


def invalid_dataset_kind(wanted: DatasetKind, what: str) -> BadInput:
    """The requested operation is only for datasets of the other kind."""
    return BadInput(
        "InvalidDatasetKind",
        f"{what} is for {wanted.value} datasets only, and this one is of the other kind",
        expected=wanted.value,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLimits:
    """Limits of a merged slice. `size` is the sum of the bytes of the slices before the merge."""

    size: int = 300_000_000
    records: int = 10_000


@dataclass(frozen=True, slots=True)
class Keep:
    """A block that keeps its event and its system time."""

    block: HashedBlock


@dataclass(frozen=True, slots=True)
class Merge:
    """`AddData` blocks, oldest first, that become one block."""

    blocks: tuple[HashedBlock, ...]

    @property
    def slices(self) -> tuple[DataSlice, ...]:
        """The slices of the blocks, in order."""
        return tuple(data for event in self.events if (data := event.new_data) is not None)

    @property
    def events(self) -> tuple[AddData, ...]:
        return tuple(block.event for block in self.blocks if isinstance(block.event, AddData))

    @property
    def key(self) -> tuple[Multihash, ...]:
        """Hashes of the slices, which determine the merged slice."""
        return tuple(data.physical_hash for data in self.slices)

    @property
    def system_time(self) -> Instant:
        return self.blocks[-1].block.system_time


Step = Keep | Merge


def hard_compaction(blocks: Sequence[HashedBlock], limits: SliceLimits) -> list[Step]:
    """Return the chain after compaction, oldest first. Without a `Merge`, nothing is to be done.

    `blocks` are the whole chain, or the part of it after a barrier, oldest first.
    """
    newest_first: list[Step] = []
    batch = _Batch(limits)
    for block in reversed(blocks):
        if not isinstance(block.event, AddData):
            newest_first += batch.closed()
            newest_first.append(Keep(block))
            continue
        if not batch.has_room(block.event.new_data):
            newest_first += batch.closed()
        batch.add(block, block.event.new_data)
    newest_first += batch.closed()
    return newest_first[::-1]


def without_data(blocks: Iterable[HashedBlock]) -> list[Step]:
    """Return the chain without the blocks of data, and so without watermark and source state."""
    return [
        Keep(block) for block in blocks if not isinstance(block.event, AddData | ExecuteTransform)
    ]


class _Batch:
    """Blocks that are collected for one merge, newest first."""

    def __init__(self, limits: SliceLimits) -> None:
        self._limits = limits
        self._clear()

    def _clear(self) -> None:
        self._blocks: list[HashedBlock] = []
        self._slices = self._size = self._records = 0

    def has_room(self, data: DataSlice | None) -> bool:
        """Return whether a block fits. Blocks without rows and the first slice always fit."""
        if data is None or self._slices == 0:
            return True
        size, records = self._size + data.size, self._records + rows_of(data)
        return size <= self._limits.size and records <= self._limits.records

    def add(self, block: HashedBlock, data: DataSlice | None) -> None:
        self._blocks.append(block)
        if data is not None:
            self._slices += 1
            self._size += data.size
            self._records += rows_of(data)

    def closed(self) -> list[Step]:
        """Return the steps for the batch, newest first, and empty it. A single block stays, and so
        do blocks if none of them has rows."""
        blocks, joins = self._blocks, self._slices > 0 and len(self._blocks) > 1
        self._clear()
        return [Merge(tuple(reversed(blocks)))] if joins else [Keep(block) for block in blocks]


def rows_of(data: DataSlice) -> int:
    return data.offset_interval.count


def merged_event(merge: Merge, data: DataSlice) -> AddData:
    """Return the one event that replaces several; `data` has all their rows."""
    oldest, newest = merge.events[0], merge.events[-1]
    return replace(
        newest,
        prev_checkpoint=oldest.prev_checkpoint,
        prev_offset=oldest.prev_offset,
        new_data=data,
        extra=_merged_extra(merge.events),
    )


def _merged_extra(events: Sequence[AddData]) -> Attributes | None:
    """Return the attributes of the newest event, with the counts of linked objects of all events
    added up, and the files of all polls."""
    given = [event.extra.value for event in events if event.extra is not None]
    if not given:
        return None
    newest = dict(events[-1].extra.value) if events[-1].extra is not None else {}
    counts = [value[SUMMARY_KEY] for value in given if isinstance(_linked(value), dict)]
    if counts:
        newest[SUMMARY_KEY] = {name: sum(_count(each, name) for each in counts) for name in COUNTS}
    marks = merged_marks(events)
    newest = {key: value for key, value in newest.items() if key not in KEYS} | marks
    return Attributes.of(newest) if newest else None


def _linked(value: dict[str, Any]) -> Any:
    return value.get(SUMMARY_KEY)


def _count(counts: dict[str, Any], name: str) -> int:
    found = counts.get(name, 0)
    return found if isinstance(found, int) else 0


def event_of(step: Step, slices: dict[tuple[Multihash, ...], DataSlice]) -> tuple[Any, Instant]:
    """Return event and system time of a step; `slices` are the merged slices by `Merge.key`."""
    if isinstance(step, Keep):
        event: MetadataEvent | Any = step.block.event
        return event, step.block.block.system_time
    data = step.slices[0] if len(step.slices) == 1 else slices[step.key]
    return merged_event(step, data), step.system_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A new end of a chain: `blocks` after `base` replace the blocks that lead to `old_head`."""

    old_head: Multihash
    base: Multihash
    blocks: tuple[HashedBlock, ...]
    state: ChainState

    @property
    def head(self) -> Multihash:
        return self.blocks[-1].hash if self.blocks else self.base


def rewritten(
    dataset: Dataset,
    old: Sequence[HashedBlock],
    steps: Sequence[Step],
    slices: dict[tuple[Multihash, ...], DataSlice],
) -> Rewrite:
    """Return the blocks for the steps, which replace the whole chain `old` and keep the rules.

    Raises:
        ChainRuleBroken: the old chain broke a rule already.
        NotUnderstood: the chain has events of a newer writer; their blocks cannot be rewritten.
    """
    dataset.state(old[-1].hash).require_understood()
    same = _common(old, steps)
    state = dataset.state(old[same - 1].hash) if same else EMPTY
    blocks: list[HashedBlock] = []
    for step in steps[same:]:
        event, system_time = event_of(step, slices)
        blocks.append(_linked_block(state, event, system_time))
        state = append_received(state, blocks[-1])
    return Rewrite(
        old_head=old[-1].hash,
        base=old[same - 1].hash if same else old[0].hash,
        blocks=tuple(blocks),
        state=state,
    )


def _linked_block(state: ChainState, event: MetadataEvent, system_time: Instant) -> HashedBlock:
    """Encode a block with the event after the state; declarations are not checked again."""
    number = 0 if state.sequence_number is None else state.sequence_number + 1
    return encode_block(
        MetadataBlock(
            system_time=system_time,
            prev_block_hash=state.head,
            sequence_number=number,
            event=event,
        )
    )


def _common(old: Sequence[HashedBlock], steps: Sequence[Step]) -> int:
    """Return the number of blocks at the start that do not change."""
    for at, (block, step) in enumerate(zip(old, steps, strict=False)):
        if isinstance(step, Merge) or step.block.hash != block.hash:
            return at
    return min(len(old), len(steps))


def swap(stores: Stores, dataset: Dataset, rewrite: Rewrite, *, beyond_quota: bool = True) -> None:
    """Check the objects, write the blocks, then move the head if it is still the old one. A rewrite
    that adds rows may not go `beyond_quota`.

    Raises:
        RefConflict: another writer moved the head.
        QuotaExceeded: of the account or the node.
        ObjectMissing, SizeMismatch: an object is absent or of another size.
    """
    check_objects(stores.objects, dataset.id, rewrite.blocks)
    put_blocks(stores.objects, dataset.id, rewrite.blocks)
    move_head(
        stores,
        dataset,
        rewrite.old_head,
        rewrite.head,
        rewrite.blocks,
        beyond_quota=beyond_quota,
    )
    stores.states.keep(dataset.id, rewrite.state, folded=len(rewrite.blocks))


def move_head(
    stores: Stores,
    dataset: Dataset,
    old: Multihash,
    new: Multihash,
    blocks: Sequence[HashedBlock] = (),
    *,
    beyond_quota: bool = True,
) -> None:
    """Compare and swap the head, and publish it. Raise `RefConflict`, `DatasetNotFound`,
    `QuotaExceeded`."""
    if dataset.head() != old:
        raise RefConflict(old, dataset.head())
    stores.refs.move(
        dataset.id,
        expected=old,
        new=new,
        blocks=blocks,
        of=dataset.entry,
        beyond_quota=beyond_quota,
    )
    stores.publish_head(dataset.id)
