"""Slices of a dataset's history, and files of them that Spark can read.

The list of slices is remembered by head, so that the next ingest reads new blocks only.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from odf_node.protocol.metadata.data import DataSlice
from odf_node.protocol.metadata.events import AddData, ExecuteTransform
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset import local_files
from odf_node.storage.datasets.dataset.dataset import Dataset, InvalidInterval
from odf_node.storage.stores.objects.layout import KIND_FOLDERS, dataset_folder
from odf_node.storage.stores.ports.values import ObjectKind

from ...engines.spark.exchange import remember

COPY_BYTES = local_files.COPY_BYTES
REMEMBERED_DATASETS = 256


class SliceLists:
    """All slices of a dataset as of a head, oldest first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Multihash, tuple[DataSlice, ...]]] = OrderedDict()

    def of(self, dataset: Dataset, head: Multihash) -> tuple[DataSlice, ...]:
        known_head, slices = self._known.get(str(dataset.id), (None, ()))
        if known_head != head:
            try:
                blocks = dataset.blocks(after=known_head, upto=head)
            except InvalidInterval:  # the head was moved somewhere else
                blocks, slices = dataset.blocks(upto=head), ()
            added = (b.event for b in blocks if isinstance(b.event, AddData | ExecuteTransform))
            slices += tuple(event.new_data for event in added if event.new_data is not None)
            self._known[str(dataset.id)] = (head, slices)
        self._known.move_to_end(str(dataset.id))
        while len(self._known) > REMEMBERED_DATASETS:
            self._known.popitem(last=False)
        return slices


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """As `local_file` of `storage/datasets`; executors elsewhere find the object of a copy.

    Raises: as that.
    """
    path = local_files.local_file(dataset, kind, content, folder)
    if path.parent == folder and kind in KIND_FOLDERS:
        remember(path, f"{dataset_folder(dataset.id)}/{KIND_FOLDERS[kind]}/{content}", content)
    return path
