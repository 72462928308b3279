"""Local files of objects that Spark's executors can find too."""

from __future__ import annotations

from pathlib import Path

from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset import local_files
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.stores.objects.layout import bucket_name
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind

from ...engines.exchange.worker_side import remember

COPY_BYTES = local_files.COPY_BYTES


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """Return the path of a local file, like `local_file` of `storage/datasets`. If it is a copy,
    record its object, so that executors on other machines can read that.

    Raises: the same errors.
    """
    path = local_files.local_file(dataset, kind, content, folder)
    if path.parent == folder:
        remember_copy(dataset, kind, content, path)
    return path


def remember_copy(dataset: Dataset, kind: ObjectKind, content: Multihash, path: Path) -> None:
    """Record that the file is a copy of the object."""
    remember(path, bucket_name(ObjectKey(dataset.id, kind, content)), content)
