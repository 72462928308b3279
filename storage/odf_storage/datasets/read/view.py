"""A dataset as of one block, ready to be read as a table: its slices, schema and primary key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odf_protocol.chain.state import EMPTY, ChainState, Vocab
from odf_protocol.codec.blocks import decode_block
from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    SetDataSchema,
    SetPollingSource,
)
from odf_protocol.multihash import HashMismatch, Multihash

from ...runtime.garbage_collection import without_garbage_collection
from ...stores.ports.errors import BlockNotFound
from ..dataset.dataset import Dataset, InvalidInterval
from ..verify.source import ChainSource, DatasetSource

if TYPE_CHECKING:
    import pyarrow as pa

    from odf_protocol.metadata.schema import DataSchema


class NotInHistory(BlockNotFound):
    """The block is not, or no longer, in the history of the dataset."""

    def __init__(self, block: Multihash) -> None:
        NotFound.__init__(
            self,
            f"there is no block {block} in the history of this dataset; it may have been rewritten "
            "since (compacted or reset), then ask as of its head or another block",
            block=str(block),
        )
        self.block = block


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A dataset as of one block: the source of its bytes, and its slices, schema and key."""

    source: ChainSource
    head: Multihash
    vocab: Vocab
    schema: pa.Schema | None
    """None before the first schema: there are no rows."""
    slices: tuple[tuple[DataSlice, Instant], ...]
    """Oldest first, with the system times of their blocks."""
    key: tuple[str, ...]
    """Primary key of the active source; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A view without its source: everything that the chain says."""

    dataset: DatasetId | None
    """None if the chain has no Seed."""
    head: Multihash
    vocab: Vocab
    schema: DataSchema | None
    slices: tuple[tuple[DataSlice, Instant], ...]
    key: tuple[str, ...]
    sequences: tuple[int, ...]
    """Sequence numbers of the blocks of the slices."""
    blocks: tuple[Multihash, ...]
    """Hashes of the blocks of the slices."""
    schemas: tuple[tuple[int, SetDataSchema], ...]
    """All schemas of the history, oldest first, each with the number of slices before it."""
    is_marked: bool
    """Whether the block `mark` is part of the chain."""

    def on(self, source: ChainSource) -> View:
        """Return the view on that source, with the schema converted to Arrow."""
        from odf_protocol.arrow_schema import to_arrow  # callers that only plan need no Arrow

        return View(
            source=source,
            head=self.head,
            vocab=self.vocab,
            schema=None if self.schema is None else to_arrow(self.schema),
            slices=self.slices,
            key=self.key,
        )


def outline_of(
    dataset: Dataset, at: Multihash | None = None, *, mark: Multihash | None = None
) -> Outline:
    """Return the outline of a dataset of this node as of a block, by default the head. It says
    whether the block `mark` is part of the chain. Raise `BlockNotFound`."""
    head = at or dataset.head()
    state = dataset.state(head)
    found = _Found(mark)
    with without_garbage_collection():
        for page in dataset.pages(upto=head):
            for block in page:
                found.see(block)
    return found.outline(head, state)


def require_in_history(dataset: Dataset, block: Multihash) -> None:
    """Check that the block is part of the present history. Raise `NotInHistory`. Blocks of a
    replaced history stay stored for a while, but the dataset does not continue from them."""
    try:
        dataset.path(after=block)
    except (InvalidInterval, BlockNotFound) as elsewhere:
        raise NotInHistory(block) from elsewhere


def active_merge(dataset: Dataset) -> Any:
    """Return the merge strategy of the active source at the head; None without a source."""
    found = _Found()
    for page in dataset.pages(upto=dataset.head()):
        for block in page:
            found.see(block)
    return found.merge


def view_of_dataset(dataset: Dataset, at: Multihash | None = None) -> View:
    """Return the view of `outline_of`, to be read in this process."""
    return outline_of(dataset, at).on(DatasetSource(dataset))


def view_of(source: ChainSource, at: Multihash | None = None) -> View:
    """Return the view of `outline_of_source`, to be read in this process."""
    return outline_of_source(source, at).on(source)


def outline_of_source(source: ChainSource, at: Multihash | None = None) -> Outline:
    """Return the outline of any dataset as of a block. Blocks are hashed; rules are not checked.

    Raises:
        HashMismatch: a block does not match its hash. NotFound: a block is missing.
        BlockNotFound: `at` is not in the chain.
    """
    tip = source.head()
    path: list[HashedBlock] = []
    following: Multihash | None = tip
    while following is not None:
        raw = source.block_bytes(following)
        if (actual := Multihash.of(raw)) != following:
            raise HashMismatch(following, actual)
        path.append(decode_block(raw))
        following = path[-1].prev
    if at is not None:
        index = next((i for i, block in enumerate(path) if block.hash == at), None)
        if index is None:
            raise BlockNotFound(at)
        path = path[index:]
    found, state = _Found(), EMPTY
    for block in reversed(path):
        found.see(block)
        state = state.after(block)
    return found.outline(state.head or source.head(), state)


class _Found:
    """Collects from the blocks what an outline needs."""

    def __init__(self, mark: Multihash | None = None) -> None:
        self._mark, self._is_marked = mark, False
        self._sequences: list[int] = []
        self._blocks: list[Multihash] = []
        self._schemas: list[tuple[int, SetDataSchema]] = []
        self._slices: list[tuple[DataSlice, Instant]] = []
        self._sources: dict[str | None, Any] = {}

    def see(self, block: HashedBlock) -> None:
        self._is_marked |= block.hash == self._mark
        match block.event:
            case AddData(new_data=data) | ExecuteTransform(new_data=data) if data is not None:
                self._slices.append((data, block.block.system_time))
                self._sequences.append(block.sequence_number)
                self._blocks.append(block.hash)
            case SetDataSchema() as schema:
                self._schemas.append((len(self._slices), schema))
            case AddPushSource() as source:
                self._sources.pop(source.source_name, None)
                self._sources[source.source_name] = source.merge
            case SetPollingSource() as source:
                self._sources[None] = source.merge
            case DisablePushSource(source_name=name):
                self._sources.pop(name, None)
            case DisablePollingSource():
                self._sources.pop(None, None)
            case _:
                pass

    @property
    def merge(self) -> Any:
        """The merge strategy of the active source that was defined last; None without one."""
        return next(reversed(self._sources.values()), None)

    def outline(self, head: Multihash, state: ChainState) -> Outline:
        return Outline(
            dataset=state.dataset_id,
            head=state.head or head,
            vocab=state.vocab,
            schema=state.data_schema,
            slices=tuple(self._slices),
            sequences=tuple(self._sequences),
            blocks=tuple(self._blocks),
            schemas=tuple(self._schemas),
            is_marked=self._is_marked,
            key=tuple(getattr(self.merge, "primary_key", ())),
        )
