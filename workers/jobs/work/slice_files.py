"""Files of slices that Spark can read."""

from __future__ import annotations

from pathlib import Path

from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset import local_files
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.stores.objects.layout import KIND_FOLDERS, dataset_folder
from odf_node.storage.stores.ports.values import ObjectKind

from ...engines.exchange.worker_side import remember

COPY_BYTES = local_files.COPY_BYTES


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """As `local_file` of `storage/datasets`; executors elsewhere find the object of a copy.

    Raises: as that.
    """
    path = local_files.local_file(dataset, kind, content, folder)
    if path.parent == folder and kind in KIND_FOLDERS:
        remember(path, f"{dataset_folder(dataset.id)}/{KIND_FOLDERS[kind]}/{content}", content)
    return path
