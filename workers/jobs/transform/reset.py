"""A derivative loses all it computed and keeps its definition, to be computed anew."""

from __future__ import annotations

from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.datasets.rewrite.compaction import without_data
from odf_node.storage.datasets.rewrite.rewrite import rewritten, swap


def reset(stores: Stores, dataset: Dataset) -> None:
    """Drop everything that holds data. Raises `RefConflict`: somebody moved the head meanwhile."""
    blocks = dataset.blocks()
    swap(stores, dataset, rewritten(dataset, blocks, without_data(blocks), {}))
