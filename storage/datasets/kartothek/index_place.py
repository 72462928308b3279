"""Where the node's own index of a dataset lies, and of which block it is. Brings no Arrow."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from odf_node.protocol.errors import BadInput
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.kartothek.keys import state_keys
from odf_node.protocol.multihash import Multihash
from odf_node.protocol.typed import decode_json

from ...runtime.logs import line
from ...stores.keyed.below import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedReads, KeyedStore

_log = logging.getLogger("odf.kartothek")
INDEX = "index"
"""Folder of the own index among what is made of a dataset."""
MAX_STATE_BYTES = 64 << 20
"""Largest state file of an index that is looked at before a read."""


class IndexRef(msgspec.Struct, frozen=True, kw_only=True):
    """The node's own index of a dataset, made of blocks of the history that is read."""

    files: dict[str, str]
    """Keys of its files, by column. A file is written once: its key means these bytes, or none."""
    labels: tuple[str, ...]
    """Its partitions: a slice each, named by its block."""
    sequences: tuple[int, ...]
    """Numbers of the blocks of the slices that are read, in their order."""


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """What the state of an index says that look-ups need."""

    head: Multihash
    """The block it was brought up to; for another history it is not used."""
    files: dict[str, str]
    labels: tuple[str, ...]


class _State(msgspec.Struct):
    metadata: dict[str, Any] = {}
    indices: dict[str, str] = {}
    partitions: dict[str, msgspec.Raw] = {}


def index_store(projections: KeyedStore, dataset: DatasetId) -> Below:
    """The files of the index of a dataset, as a store of their own."""
    return Below(projections, f"{dataset_folder(dataset)}/{INDEX}")


def index_state(store: KeyedReads, dataset: DatasetId) -> IndexState | None:
    """What the index says of itself; None if there is no index, or none that can be used."""
    content = store.read(state_keys(dataset_folder(dataset))[0], most=MAX_STATE_BYTES)
    if content is None:
        return None
    try:
        said = decode_json(content.raw, _State)
        head = Multihash.parse(str(said.metadata.get("odf.head")))
    except (msgspec.DecodeError, UnicodeDecodeError, BadInput) as unusable:
        _log.warning(line("index not used", dataset=str(dataset), reason=str(unusable)[:200]))
        return None
    return IndexState(head=head, files=said.indices, labels=tuple(said.partitions))
