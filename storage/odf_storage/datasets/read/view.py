"""A dataset as of one block, ready to be read as a table: its slices, schema and primary key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odf_protocol.chain.state import EMPTY, ChainState, Vocab
from odf_protocol.codec.blocks import decode_block
from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DataSlice,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    SetDataSchema,
    SetPollingSource,
)
from odf_protocol.multihash import HashMismatch, Multihash

from ...runtime.clock import without_garbage_collection
from ...stores.ports.errors import BlockNotFound
from ..dataset.dataset import Dataset, InvalidInterval
from ..verify.source import ChainSource, DatasetSource
from .kept_outline import LONG, Collected, KeptOutline, OutlinedBlock

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
        from odf_protocol.columns.arrow_schema import (
            to_arrow,  # callers that only plan need no Arrow
        )

        return View(
            source=source,
            head=self.head,
            vocab=self.vocab,
            schema=None if self.schema is None else to_arrow(self.schema),
            slices=self.slices,
            key=self.key,
        )


def outline_of(
    dataset: Dataset,
    at: Multihash | None = None,
    *,
    mark: Multihash | None = None,
    kept: KeptOutline | None = None,
) -> Outline:
    """Return the outline of a dataset of this node as of a block, by default the head. It says
    whether the block `mark` is part of the chain. Blocks that are `kept` are not decoded again.
    Raise `BlockNotFound`."""
    head = at or dataset.head()
    state = dataset.state(head)
    with without_garbage_collection():
        known = None if kept is None else kept.read(dataset, head)
        found = _Found() if known is None else _Found(known.data, known.others)
        before = len(found.data)
        for page in dataset.pages(after=None if known is None else known.head, upto=head):
            for block in page:
                found.see(block)
        if kept is not None and len(found.data) >= before + LONG:
            kept.write(Collected(head, found.data, found.others))
    is_marked = mark is not None and _is_in_history(dataset, mark, head)
    return found.outline(head, state, is_marked=is_marked)


def _is_in_history(dataset: Dataset, block: Multihash, head: Multihash) -> bool:
    try:
        dataset.path(after=block, upto=head)
    except (InvalidInterval, BlockNotFound):
        return False
    return True


def require_in_history(dataset: Dataset, block: Multihash) -> None:
    """Check that the block is part of the present history. Raise `NotInHistory`. Blocks of a
    replaced history stay stored for a while, but the dataset does not continue from them."""
    if not _is_in_history(dataset, block, dataset.head()):
        raise NotInHistory(block)


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


@dataclass(slots=True)
class _Found:
    """Collects from the blocks what an outline needs."""

    data: list[OutlinedBlock] = field(default_factory=list)
    others: list[tuple[int, HashedBlock]] = field(default_factory=list)
    """Blocks of schemas and sources, each with the number of blocks with data before it."""

    def see(self, block: HashedBlock) -> None:
        match block.event:
            case AddData(new_data=data) | ExecuteTransform(new_data=data) if data is not None:
                recorded = block.block.system_time
                self.data.append(OutlinedBlock(block.hash, block.sequence_number, recorded, data))
            case (
                SetDataSchema()
                | AddPushSource()
                | SetPollingSource()
                | DisablePushSource()
                | DisablePollingSource()
            ):
                self.others.append((len(self.data), block))
            case _:
                pass

    @property
    def merge(self) -> Any:
        """The merge strategy of the active source that was defined last; None without one."""
        sources: dict[str | None, Any] = {}
        for _, block in self.others:
            match block.event:
                case AddPushSource() as source:
                    sources.pop(source.source_name, None)
                    sources[source.source_name] = source.merge
                case SetPollingSource() as source:
                    sources[None] = source.merge
                case DisablePushSource(source_name=name):
                    sources.pop(name, None)
                case DisablePollingSource():
                    sources.pop(None, None)
                case _:
                    pass
        return next(reversed(sources.values()), None)

    def outline(self, head: Multihash, state: ChainState, *, is_marked: bool = False) -> Outline:
        return Outline(
            dataset=state.dataset_id,
            head=state.head or head,
            vocab=state.vocab,
            schema=state.data_schema,
            slices=tuple([(each.data, each.system_time) for each in self.data]),
            sequences=tuple([each.sequence_number for each in self.data]),
            blocks=tuple([each.hash for each in self.data]),
            schemas=tuple(
                (before, block.event)
                for before, block in self.others
                if isinstance(block.event, SetDataSchema)
            ),
            is_marked=is_marked,
            key=tuple(getattr(self.merge, "primary_key", ())),
        )
