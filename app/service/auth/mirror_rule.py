"""The rule of mirrors: nobody but what they follow adds to them."""

from __future__ import annotations

from odf_node.storage.stores.ports.values import DatasetEntry

from ..wiring import Node
from .access import IsRemote


def refuse_mirror(node: Node, entry: DatasetEntry) -> None:
    """Before anything is written by others than the remote. Raises `IsRemote`."""
    if node.stores.mirrors.find(entry.id) is not None:
        raise IsRemote
