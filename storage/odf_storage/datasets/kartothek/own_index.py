"""The index that the node keeps of a dataset: which slices have a value of a column.

It is the changelog of the dataset, published into an internal store without data files: readers of
the index open the slices.

A publication that the node serves itself: it stores files, but notes instead of slices.

Under the key of a slice there is a note with its hash, so that a key always means the same bytes,
even if the chain changes.

A read-only store of the files of the node's index, which another process opens.

The node's own index of a dataset as a `SliceIndex` for pruning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from odf_protocol.errors import BadInput, NodeFault
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.kartothek.keys import (
    KartothekFileMissing,
    MalformedIndex,
    MalformedPredicate,
    NoKartothek,
)
from odf_protocol.kartothek.partition_values import normalised
from odf_protocol.kartothek.predicates import LABEL, Term
from odf_protocol.multihash import MalformedHash, Multihash

from ...runtime.clock import Clock, system_clock
from ...runtime.logs import line
from ...stores.keyed.folder import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedReads, KeyedStore
from ...stores.ports.errors import KeyedFileTooLarge, KeyNotFound
from ...stores.ports.keyed import KeyedContent, KeyInfo, LinkSource
from ..dataset.dataset import Dataset
from ..pruning.bounds import Mask
from .definition import MAX_INDEX_BYTES, Publication, Published
from .index_place import INDEX, IndexRef, index_store
from .parts import SLICES
from .publish import publish
from .records import KeyedRecords
from .select import SelectedTable, open_table, own_pairs

_log = logging.getLogger("odf.kartothek")
RECORD = "record.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnIndex:
    """Indices on some columns of a dataset, up to a block.

    A partition is a slice; `block_of` returns its block by its label. Slices of later blocks are
    in no index.
    """

    table: SelectedTable
    columns: frozenset[str]
    """Columns that have an index."""
    head: Multihash
    sequence_number: int


def made_of(projections: KeyedStore, dataset: DatasetId) -> Below:
    """Return a store with the projections of a dataset, which are made for readers."""
    return Below(projections, dataset_folder(dataset))


def own_index(projections: KeyedStore, dataset: DatasetId) -> OwnIndex | None:
    """Return the index that was written last; None if there is none, or none that can be used.

    Its head may have been replaced since: compare `head` with the chain that is read.
    """
    return opened_index(index_store(projections, dataset), dataset_folder(dataset))


def opened_index(store: KeyedReads, uuid: str) -> OwnIndex | None:
    """As `own_index`, from a store with the files of one index."""
    try:
        table = open_table(store, uuid)
        said = table.found.state.metadata
        return OwnIndex(
            table=table,
            columns=frozenset(table.found.state.indices),
            head=Multihash.parse(str(said.get("odf.head"))),
            sequence_number=int(str(said.get("odf.sequence-number"))),
        )
    except NoKartothek:
        return None
    except (BadInput, KartothekFileMissing, ValueError) as unusable:
        _log.warning(line("index not used", dataset=uuid, reason=str(unusable)[:200]))
        return None


def block_of(label: str) -> int | None:
    """Return the sequence number of the block of a slice, by the label of its partition; None for
    the partition of a dataset without rows."""
    digits = label[1:9]
    return int(digits) if label[:1] == "b" and digits.isdigit() else None


def refresh_own_index(
    dataset: Dataset,
    projections: KeyedStore,
    columns: Sequence[str],
    *,
    max_index_bytes: int = MAX_INDEX_BYTES,
    clock: Clock = system_clock,
    scratch: Path | None = None,
) -> Published:
    """Bring the index up to the head; read only new slices. Raises as `publish`."""
    made = made_of(projections, dataset.id)
    publication = Publication(
        uuid=dataset_folder(dataset.id),
        secondary_indices=tuple(columns),
        max_index_bytes=max_index_bytes,
        has_data=False,
    )
    return publish(
        dataset,
        index_store(projections, dataset.id),
        publication,
        KeyedRecords(made, f"{INDEX}/{RECORD}"),
        clock=clock,
        force=True,
        kept=made,
        scratch=scratch,
    )


def remove_own_index(projections: KeyedStore, dataset: DatasetId) -> None:
    """Delete the index, and the column values that were kept for it."""
    uuid = dataset_folder(dataset)
    made = made_of(projections, dataset)
    gone = [info.key for folder in (INDEX, SLICES) for info in made.list(folder)]
    made.delete(sorted(gone, key=lambda key: not key.startswith(f"{INDEX}/{uuid}.")))


SERVED = "served"
"""Folder of its files among the projections of a dataset."""
NOTE_BYTES = 200
"""Limit of the bytes of a note. Every Parquet file with a column is longer."""


class ServedStore(Below):
    """A keyed store that does not store slices a second time."""

    def link(self, key: str, source: LinkSource) -> None:
        """Store a note with the hash of the slice under the key."""
        if source.object_hash is None:
            raise NodeFault("NoObject", f"{key} is no object of this node")
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


OpenFile = Callable[[str], BinaryIO | None]
"""Opens a file by its key, with random access; returns None if there is none."""


class IndexFiles:
    """The files of an index, for processes that have no access to the store."""

    def __init__(self, open_file: OpenFile) -> None:
        self._open = open_file

    def read(self, key: str, *, most: int) -> KeyedContent | None:
        stream = self._open(key)
        if stream is None:
            return None
        with stream:
            raw = stream.read(most + 1)
        if len(raw) > most:
            raise KeyedFileTooLarge(key, most)
        return KeyedContent(raw, "", Instant(0))

    def open(self, key: str) -> BinaryIO:
        stream = self._open(key)
        if stream is None:
            raise KeyNotFound(key)
        return stream

    def list(self, _: str) -> Iterator[KeyInfo]:
        """List nothing: the state of the node's index names every partition."""
        return iter(())


def own_slice_indices(
    open_file: OpenFile, said: IndexRef | None, schema: pa.Schema
) -> list[OwnSliceIndex]:
    """Return the index as a list, empty without one. `open_file` opens its files; `schema` has the
    types of the columns."""
    return [] if said is None else [OwnSliceIndex(IndexFiles(open_file), said, schema)]


class OwnSliceIndex:
    """A `SliceIndex` for slices of the history from which the index was made.

    Slices of blocks that the index does not cover may have any value.
    """

    def __init__(self, store: KeyedReads, said: IndexRef, schema: pa.Schema) -> None:
        self._store, self._said, self._schema = store, said, schema

    def may_hold(self, term: Term) -> Mask | None:
        key = self._said.files.get(term.column)
        if key is None:
            return None
        column_type = normalised(self._schema.field(term.column).type)
        known, labels = pa.array(self._said.labels, pa.string()), set[str]()
        try:
            for pairs in own_pairs(self._store, key, term, column_type, known):
                labels.update(pairs[LABEL].to_pylist())
        except (MalformedIndex, MalformedPredicate) as unusable:
            _log.warning(line("index not used", column=term.column, reason=unusable.message))
            return None
        return self._among(labels) | ~self._among(self._said.labels)

    def _among(self, labels: Iterable[str]) -> Mask:
        blocks = [block for label in labels if (block := block_of(label)) is not None]
        return np.isin(np.array(self._said.sequences, np.int64), np.array(blocks, np.int64))
