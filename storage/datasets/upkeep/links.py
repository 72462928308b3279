"""Objects that rows link to are part of a dataset for as long as a chain leads to the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from odf_node.protocol.errors import BadInput, Damaged, NotFound
from odf_node.protocol.identity import DatasetId, DatasetRef
from odf_node.protocol.linked import link_columns
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import AddData, ExecuteTransform
from odf_node.protocol.multihash import Multihash
from odf_node.protocol.slice_file import UnreadableSlice

from ...stores.ports.values import ObjectKey, ObjectKind
from ..contents.linked import readable_links
from ..dataset.local_files import read_anywhere
from ..integrity.errors import ObjectDamaged, ObjectHealing
from ..integrity.opening import open_hashed
from ..node.stores import Stores
from .marks import Marks


class LinksUnreadable(Damaged):
    """Rows may link to objects, and their slice cannot be read: nobody knows what may go."""

    def __init__(self, data: Multihash, why: Exception) -> None:
        super().__init__(f"slice {data} cannot be read for what it links to: {why}"[:500])


class Links:
    """What the slices of a chain link to, up to `head`. `opened` gives the bytes of a slice."""

    def __init__(
        self,
        stores: Stores,
        dataset: DatasetId,
        head: Multihash,
        opened: Callable[[ObjectKey], BinaryIO],
    ) -> None:
        self._dataset, self._opened = dataset, opened
        state = stores.dataset(DatasetRef(id=dataset)).state(head)
        try:
            # columns never go away, so the newest schema has those of all slices
            self.columns = link_columns(state.data_schema)
        except BadInput:  # a schema in a form that has no links
            self.columns = ()

    def of(self, block: HashedBlock) -> Iterator[Multihash]:
        """Each at least once. Raises `LinksUnreadable`."""
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
    """Marks what the slices of a chain link to; their bytes are hashed before they are believed."""

    def __init__(self, stores: Stores, dataset: DatasetId, head: Multihash) -> None:
        self._links = Links(stores, dataset, head, lambda key: open_hashed(stores, key))

    def mark(self, block: HashedBlock, marks: Marks) -> None:
        """Raises `LinksUnreadable`."""
        for linked in self._links.of(block):
            marks.add(ObjectKind.DATA, linked)
