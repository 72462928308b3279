"""A publication that the node serves itself: its files are the node's, its slices stay slices.

Under the key of a slice there is a note of its hash, so that a key means the same bytes for as long
as it is there, whatever becomes of the chain.
"""

from __future__ import annotations

from odf_node.protocol.errors import NodeFault
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import MalformedHash, Multihash

from ...stores.keyed.below import Below
from ...stores.ports import KeyedReads, KeyedStore
from ...stores.ports.errors import KeyedFileTooLarge
from ...stores.ports.keyed_values import LinkSource
from .own_index import made_of

SERVED = "served"
"""Folder of its files among what is made of a dataset."""
NOTE_BYTES = 200
"""Longest note. No Parquet file that holds a column is as short."""


class NoObject(NodeFault):
    """Bytes without a hash were to be noted as a slice."""


class ServedStore(Below):
    """A keyed store in which a slice is not stored a second time."""

    def link(self, key: str, source: LinkSource) -> None:
        """A note of the hash of the slice."""
        if source.object_hash is None:
            raise NoObject(f"{key} is no object of this node")
        self.put(key, (str(source.object_hash).encode(),))


def served_store(projections: KeyedStore, dataset: DatasetId) -> ServedStore:
    """Where the publication of a dataset is kept that the node serves."""
    return ServedStore(made_of(projections, dataset), SERVED)


def noted_slice(store: KeyedReads, key: str) -> Multihash | None:
    """The slice that is noted under a key; None for a file, and for no file."""
    try:
        found = store.read(key, most=NOTE_BYTES)
        return None if found is None else Multihash.parse(found.raw.decode("ascii"))
    except (KeyedFileTooLarge, UnicodeDecodeError, MalformedHash):
        return None
