"""The rule of mirrors: nobody but what they follow adds to them."""

from __future__ import annotations

from odf_node.storage.stores.ports import MirrorReads
from odf_node.storage.stores.ports.values import DatasetEntry

from .access import IsRemote


def refuse_mirror(mirrors: MirrorReads, entry: DatasetEntry) -> None:
    """Before anything is written by others than the remote. Raises `IsRemote`."""
    if mirrors.find(entry.id) is not None:
        raise IsRemote
