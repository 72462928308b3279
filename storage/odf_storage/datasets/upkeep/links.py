"""Find the objects that rows link to; they belong to a dataset as long as it has the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from odf_protocol.chain.link_columns import all_link_columns
from odf_protocol.errors import Damaged, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_protocol.slice_file import UnreadableSlice

from ...stores.ports.values import ObjectKey, ObjectKind
from ..contents.linked import readable_links
from ..dataset.local_files import read_anywhere
from ..integrity.errors import ObjectDamaged, ObjectHealing
from ..integrity.opening import open_hashed
from ..node.stores import Stores
from .marks import Marks


class LinksUnreadable(Damaged):
    """A slice whose rows may link to objects cannot be read, so no object may be removed."""

    def __init__(self, data: Multihash, why: Exception) -> None:
        super().__init__(f"slice {data} cannot be read for what it links to: {why}"[:500])


class Links:
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
        self._links = Links(stores, dataset, head, lambda key: open_hashed(stores, key))

    def mark(self, block: HashedBlock, marks: Marks) -> None:
        """Mark the objects that a block links to. Raise `LinksUnreadable`."""
        for linked in self._links.of(block):
            marks.add(ObjectKind.DATA, linked)
