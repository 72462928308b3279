"""Objects that rows link to stay as long as a chain leads to the rows."""

from __future__ import annotations

import pyarrow as pa

from protocol.errors import BadInput, Damaged
from protocol.identity import DatasetId, DatasetRef
from protocol.linked import link_columns
from protocol.metadata.block import HashedBlock
from protocol.metadata.events import AddData, ExecuteTransform
from protocol.multihash import Multihash

from ..errors import ObjectNotFound
from ..linked import readable_links
from ..local_files import read_anywhere
from ..stores import Stores
from ..values import ObjectKey, ObjectKind
from .marks import Marks


class LinksUnreadable(Damaged):
    """Rows may link to objects, and their slice cannot be read: nobody knows what may go."""

    def __init__(self, data: Multihash, why: Exception) -> None:
        super().__init__(f"slice {data} cannot be read for what it links to: {why}"[:500])


class LinkMarker:
    """Marks what the slices of a chain link to, up to `head`."""

    def __init__(self, stores: Stores, dataset: DatasetId, head: Multihash) -> None:
        self._objects, self._dataset = stores.objects, dataset
        state = stores.dataset(DatasetRef(id=dataset)).state(head)
        try:
            # columns never go away, so the newest schema has those of all slices
            self._columns = link_columns(state.data_schema)
        except BadInput:  # a schema in a form that has no links
            self._columns = ()

    def mark(self, block: HashedBlock, marks: Marks) -> None:
        """Raises `LinksUnreadable`."""
        event = block.event
        data = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
        if not self._columns or data is None:
            return
        try:
            key = ObjectKey(self._dataset, ObjectKind.DATA, data.physical_hash)
            with self._objects.open(key) as stream, read_anywhere(stream) as file:
                for linked in readable_links(file, self._columns):
                    marks.add(ObjectKind.DATA, linked)
        except (ObjectNotFound, pa.ArrowException, OSError) as problem:
            raise LinksUnreadable(data.physical_hash, problem) from None
