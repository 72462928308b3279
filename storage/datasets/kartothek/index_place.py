"""Where the node's own index of a dataset lies, and of which block it is. Brings no Arrow."""

from __future__ import annotations

from typing import Any

import msgspec

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.kartothek.keys import state_keys
from odf_node.protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_node.protocol.typed import decode_json

from ...stores.keyed.below import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedReads, KeyedStore

INDEX = "index"
"""Folder of the own index among what is made of a dataset."""
MAX_STATE_BYTES = 64 << 20
"""Largest state file of an index that is looked at before a read."""


class IndexRef(msgspec.Struct, frozen=True, kw_only=True):
    """The node's own index of a dataset, made of blocks of the history that is read."""

    uuid: str
    head: str
    """The block it was brought up to; another index is not used."""
    sequences: tuple[int, ...]
    """Numbers of the blocks of the slices that are read, in their order."""


class _State(msgspec.Struct):
    metadata: dict[str, Any] = {}


def index_store(projections: KeyedStore, dataset: DatasetId) -> Below:
    """The files of the index of a dataset, as a store of their own."""
    return Below(projections, f"{dataset_folder(dataset)}/{INDEX}")


def indexed_head(store: KeyedReads, dataset: DatasetId) -> Multihash | None:
    """The block that the index was brought up to; None if there is no index, or none that says."""
    content = store.read(state_keys(dataset_folder(dataset))[0], most=MAX_STATE_BYTES)
    if content is None:
        return None
    try:
        said = decode_json(content.raw, _State)
        return Multihash.parse(str(said.metadata.get("odf.head")))
    except (msgspec.DecodeError, UnicodeDecodeError, MalformedHash, MalformedMultibase):
        return None
