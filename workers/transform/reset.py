"""A derivative loses all it computed and keeps its definition, to be computed anew."""

from __future__ import annotations

from storage.dataset import Dataset
from storage.history.compaction import without_data
from storage.history.rewrite import rewritten, swap
from storage.stores import Stores


def reset(stores: Stores, dataset: Dataset) -> None:
    """Drop everything that holds data. Raises `RefConflict`: somebody moved the head meanwhile."""
    blocks = dataset.blocks()
    swap(stores, dataset, rewritten(dataset, blocks, without_data(blocks), {}))
