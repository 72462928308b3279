"""A publication that the node serves itself: it stores files, but notes instead of slices.

Under the key of a slice there is a note with its hash, so that a key always means the same bytes,
even if the chain changes.
"""

from __future__ import annotations

from odf_protocol.errors import NodeFault
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import MalformedHash, Multihash

from ...stores.keyed.below import Below
from ...stores.ports import KeyedReads, KeyedStore
from ...stores.ports.errors import KeyedFileTooLarge
from ...stores.ports.keyed_values import LinkSource
from .own_index import made_of

SERVED = "served"
"""Folder of its files among the projections of a dataset."""
NOTE_BYTES = 200
"""Limit of the bytes of a note. Every Parquet file with a column is longer."""


class NoObject(NodeFault):
    """The source to link is not an object with a hash."""


class ServedStore(Below):
    """A keyed store that does not store slices a second time."""

    def link(self, key: str, source: LinkSource) -> None:
        """Store a note with the hash of the slice under the key."""
        if source.object_hash is None:
            raise NoObject(f"{key} is no object of this node")
        self.put(key, (str(source.object_hash).encode(),))


def served_store(projections: KeyedStore, dataset: DatasetId) -> ServedStore:
    """Return the store of the publication of a dataset that the node serves."""
    return ServedStore(made_of(projections, dataset), SERVED)


def noted_slice(store: KeyedReads, key: str) -> Multihash | None:
    """Return the hash of the slice noted under a key; None if there is a file or nothing."""
    try:
        found = store.read(key, most=NOTE_BYTES)
        return None if found is None else Multihash.parse(found.raw.decode("ascii"))
    except (KeyedFileTooLarge, UnicodeDecodeError, MalformedHash):
        return None
