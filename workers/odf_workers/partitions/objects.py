"""Objects of a dataset, opened by stages where they are stored: in a folder or in a bucket.

The driver does not check their bytes, since the stages that receive objects check them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.layout import bucket_name
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..engines.exchange.links import Loan, opened
from ..engines.exchange.worker_side import ExchangePlace, exchange_of, lend_object
from .port import File, Way

Name = tuple[ObjectKind, Multihash]
NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


@dataclass(frozen=True, slots=True)
class LentObjects:
    """Some objects of a dataset, which stages on any machine can open."""

    files: Mapping[Name, File | None]
    """None for an object that was missing when it was to be lent."""

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        """Open an object; its hash is not checked yet. From a bucket it can be read once, from the
        beginning.

        Raises:
            ObjectNotFound: it is missing.
            ExchangeFault: the bucket does not answer.
        """
        file = self.files[kind, object_hash]
        found = opened(file.link) if isinstance(file, Loan) else _opened(file)
        if found is None:
            raise ObjectNotFound(kind, object_hash)
        return found


def can_lend(objects: ObjectStore) -> bool:
    """Whether stages can open objects of this store where they are stored."""
    return objects.local_paths is not None or exchange_of() is not None


def lent(way: Way, objects: ObjectStore, dataset: DatasetId, names: Iterable[Name]) -> LentObjects:
    """Lend the named objects of a store to the stages of that way. `can_lend` must be true of the
    store."""
    return LentObjects(
        {(kind, name): _lent(way, objects, ObjectKey(dataset, kind, name)) for kind, name in names}
    )


def _lent(way: Way, objects: ObjectStore, key: ObjectKey) -> File | None:
    url, local = exchange_of(), objects.local_paths
    if local is None and url is not None:
        return lend_object(url, ExchangePlace(bucket_name(key), key.hash))
    if local is None:
        raise AssertionError("unreachable: nothing can be lent")
    try:
        return way.file(local.path(key))
    except NO_FILE:
        return None


def _opened(file: Path | None) -> BinaryIO | None:
    if file is None:
        return None
    try:
        return file.open("rb")
    except NO_FILE:
        return None
