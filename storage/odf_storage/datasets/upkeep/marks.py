"""The set of objects that the chain of a dataset names, with eight bytes for each object.

Only the first eight bytes of a digest are kept, so one unnamed object in 10^13 may count as named
and stay; a named object never counts as unnamed. A block of a newer version may name any slice or
checkpoint, so behind such a block all of them count as named.

Find the objects that rows link to; they belong to a dataset as long as it has the rows.

Follow chains backwards in pages, so that memory does not grow with their length.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from odf_protocol.chain.schema_evolution import all_link_columns
from odf_protocol.columns.slice_file import UnreadableSlice
from odf_protocol.errors import Damaged, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import AddData, ExecuteTransform, HashedBlock, UnknownEvent
from odf_protocol.multihash import Multihash

from ...stores.index.named_objects import named_objects
from ...stores.index.sql import DatasetEntries
from ...stores.ports import BlockIndex
from ...stores.ports.errors import BlockNotFound
from ...stores.ports.values import AccountId, DatasetEntry, ObjectKey, ObjectKind
from ...stores.registers.accounts.access import UploadedFiles
from ..contents.linked import readable_links
from ..dataset.info import read_anywhere
from ..integrity.healing import ObjectDamaged, ObjectHealing
from ..integrity.opening import open_hashed
from ..node.stores import Stores

NAMED_BY_EVENTS = (ObjectKind.DATA, ObjectKind.CHECKPOINT)


class Marks:
    """A growing set. `has` finds added objects after the next `settle`."""

    def __init__(self) -> None:
        self._marks = {kind: array("Q") for kind in ObjectKind}
        self.unknown: HashedBlock | None = None
        """A block whose event this version does not understand, if there is one."""

    def add(self, kind: ObjectKind, object_hash: Multihash) -> None:
        self._marks[kind].append(_short(object_hash))

    def add_block(self, block: HashedBlock) -> None:
        """Add a block and the objects it names."""
        self.add(ObjectKind.BLOCK, block.hash)
        if isinstance(block.event, UnknownEvent):
            self.unknown = block
        for named in named_objects(block.event):
            self.add(named.kind, named.hash)

    def settle(self) -> None:
        for marks in filter(len, self._marks.values()):
            np.frombuffer(marks, dtype=np.uint64).sort()

    def has(self, kind: ObjectKind, object_hash: Multihash) -> bool:
        if self.unknown is not None and kind in NAMED_BY_EVENTS:
            return True
        marks, short = self._marks[kind], _short(object_hash)
        index = bisect_left(marks, short)
        return index < len(marks) and marks[index] == short

    def count(self, kind: ObjectKind) -> int:
        return len(self._marks[kind])


def _short(object_hash: Multihash) -> int:
    return int.from_bytes(object_hash.digest[:8], "little")


class LinksUnreadable(Damaged):
    """A slice whose rows may link to objects cannot be read, so no object may be removed."""

    def __init__(self, data: Multihash, why: Exception) -> None:
        super().__init__(f"slice {data} cannot be read for what it links to: {why}"[:500])


class LinkMarks:
    """The links of the slices of a chain up to `head`. `opened` opens a slice."""

    def __init__(
        self,
        stores: Stores,
        dataset: DatasetId,
        head: Multihash,
        opened: Callable[[ObjectKey], BinaryIO],
    ) -> None:
        self._dataset, self._opened = dataset, opened
        stores.dataset(DatasetRef(id=dataset)).state(head)  # raises if the chain is not sound
        self.columns = all_link_columns(stores.blocks.schemas(dataset))

    def of(self, block: HashedBlock) -> Iterator[Multihash]:
        """Yield the objects that a block links to, some repeatedly. Raise `LinksUnreadable`."""
        event = block.event
        data = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
        if not self.columns or data is None:
            return
        try:
            key = ObjectKey(self._dataset, ObjectKind.DATA, data.physical_hash)
            with self._opened(key) as stream, read_anywhere(stream) as file:
                yield from readable_links(file, self.columns)
        except UNREADABLE as problem:
            raise LinksUnreadable(data.physical_hash, problem) from None


UNREADABLE = (NotFound, ObjectDamaged, ObjectHealing, UnreadableSlice, OSError)


class LinkMarker:
    """Marks the objects that the slices of a chain link to; verifies the hash of each slice."""

    def __init__(self, stores: Stores, dataset: DatasetId, head: Multihash) -> None:
        self._links = LinkMarks(stores, dataset, head, lambda key: open_hashed(stores, key))

    def mark(self, block: HashedBlock, marks: Marks) -> None:
        """Mark the objects that a block links to. Raise `LinksUnreadable`."""
        for linked in self._links.of(block):
            marks.add(ObjectKind.DATA, linked)


PAGE = 500


def walk_back(blocks: BlockIndex, dataset: DatasetId, start: Multihash) -> Iterator[HashedBlock]:
    """Yield `start` and all its ancestors, newest first; at most `PAGE` blocks are in memory.

    Raises:
        BlockNotFound: a block of the chain is missing. BlockDamaged.
    """
    following: Multihash | None = start
    while following is not None:
        page = blocks.ancestors(dataset, following, limit=PAGE)
        if not page:
            raise BlockNotFound(following)
        yield from page
        following = page[-1].prev


def is_kept_file(files: UploadedFiles, key: ObjectKey) -> bool:
    """Return whether it is a file that an account uploaded; its key has the id of the account in
    place of a dataset."""
    if key.kind is not ObjectKind.UPLOAD:
        return False
    return files.has_content(AccountId(str(key.dataset)), key.hash)


def entries(registry: DatasetEntries) -> Iterator[DatasetEntry]:
    """Yield every registered dataset, in the order of aliases."""
    after = None
    while page := registry.page(after=after, limit=PAGE):
        yield from page
        after = page[-1].alias.folded
