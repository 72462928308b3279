"""Files that the worker has in common with Spark's executors: copies of objects, and new slices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset import local_files
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.objects.layout import bucket_name
from odf_storage.stores.ports import Objects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ...engines.exchange.worker_side import collect, exchange_of, keep, remember
from ...slices.write import Written

COPY_BYTES = local_files.COPY_BYTES


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """Return the path of a local file, like `local_file` of `odf_storage/datasets`. If it is a
    copy, record its object, so that executors on other machines can read that.

    Raises: the same errors.
    """
    return local_object(dataset, ObjectKey(dataset.id, kind, content), folder)


def local_object(dataset: Dataset, key: ObjectKey, folder: Path) -> Path:
    """Do the same as `local_file` for an object of the dataset by its key."""
    path = dataset.whole_object(key, folder / str(key.hash))
    if path.parent == folder:
        remember(path, bucket_name(key), key.hash)
    return path


def remember_copy(dataset: Dataset, kind: ObjectKind, content: Multihash, path: Path) -> None:
    """Record that the file is a copy of the object."""
    remember(path, bucket_name(ObjectKey(dataset.id, kind, content)), content)


def readable(slices: Sequence[Written]) -> Sequence[Written]:
    """Return the slices after fetching those that executors put into the bucket. Raises as
    `collect`."""
    for written in slices:
        if written.stored is not None and not written.path.exists():
            collect(_exchange(), written.stored, written.path)
    return slices


def put_slice(objects: Objects, key: ObjectKey, written: Written) -> None:
    """Put a slice into the store. The bucket itself copies one that an executor put there. Raises
    as `put` and `keep`."""
    if written.stored is None:
        objects.put(key, written.chunks())
    else:
        keep(_exchange(), written.stored, key)


def _exchange() -> str:
    if (url := exchange_of()) is None:
        raise AssertionError("unreachable: without an exchange no slice is in a bucket")
    return url
