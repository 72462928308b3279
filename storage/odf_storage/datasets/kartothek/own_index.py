"""The index that the node keeps of a dataset: which slices have a value of a column.

It is the changelog of the dataset, published into an internal store without data files: readers of
the index open the slices.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.kartothek.errors import KartothekFileMissing, NoKartothek
from odf_protocol.multihash import Multihash

from ...runtime.clock import Clock, system_clock
from ...runtime.logs import line
from ...stores.keyed.below import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedReads, KeyedStore
from ..dataset.dataset import Dataset
from .index_place import INDEX, index_store
from .publication import MAX_INDEX_BYTES, Publication, Published
from .publish import publish
from .records import KeyedRecords
from .slice_values import SLICES
from .tables import Table, open_table

_log = logging.getLogger("odf.kartothek")
RECORD = "record.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnIndex:
    """Indices on some columns of a dataset, up to a block.

    A partition is a slice; `block_of` returns its block by its label. Slices of later blocks are
    in no index.
    """

    table: Table
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
