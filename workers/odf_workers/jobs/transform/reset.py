"""Reset: a derivative loses all computed data, keeps its definition, and is computed again."""

from __future__ import annotations

from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compaction import without_data
from odf_storage.datasets.rewrite.rewrite import rewritten, swap


def reset(stores: Stores, dataset: Dataset) -> None:
    """Drop all blocks with data. Raises `RefConflict` if another writer moved the head
    meanwhile."""
    blocks = dataset.blocks()
    swap(stores, dataset, rewritten(dataset, blocks, without_data(blocks), {}))
