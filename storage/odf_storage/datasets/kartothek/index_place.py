"""The location of the node's index of a dataset, and the block it is as of. Needs no Arrow.

live/state.json          the note: what is kept, and as of which block
live/<hash of the file>  a bit for each row, or a segment: pairs (hash, offset), sorted by hash
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.kartothek.keys import state_keys
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json

from ...runtime.logs import line
from ...stores.keyed.folder import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedReads, KeyedStore

_log = logging.getLogger("odf.kartothek")
INDEX = "index"
"""Folder of the index among the projections of a dataset."""
MAX_STATE_BYTES = 64 << 20
"""Limit of the bytes of the state file of an index."""


class IndexRef(msgspec.Struct, frozen=True, kw_only=True):
    """The node's index of a dataset, made from blocks of the history that is read."""

    files: dict[str, str]
    """Keys of its files, by column. A file may be deleted, but never changes."""
    labels: tuple[str, ...]
    """Labels of its partitions; each is a slice, named by its block."""
    sequences: tuple[int, ...]
    """Numbers of the blocks of the slices that are read, in the order of the slices."""


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the state of an index that lookups need."""

    head: Multihash
    """The block up to which it was made; it is not used for another history."""
    files: dict[str, str]
    labels: tuple[str, ...]


class _State(msgspec.Struct):
    metadata: dict[str, Any] = {}
    indices: dict[str, str] = {}
    partitions: dict[str, msgspec.Raw] = {}


def index_store(projections: KeyedStore, dataset: DatasetId) -> Below:
    """Return a store with the files of the index of a dataset."""
    return Below(projections, f"{dataset_folder(dataset)}/{INDEX}")


def index_state(store: KeyedReads, dataset: DatasetId) -> IndexState | None:
    """Return the state of the index; None if there is no index, or none that can be used."""
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
