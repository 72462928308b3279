"""The real library, on a folder or a bucket: what it writes, and what it reads of what we write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pandas as pd
from minimalkv._mixins import ExtendedKeyspaceMixin
from minimalkv.fs import FilesystemStore
from minimalkv.net.boto3store import Boto3Store
from plateau.api.dataset import DatasetFactory
from plateau.io import eager

from odf_storage.stores.objects.s3_bucket import S3Location


class _Folder(ExtendedKeyspaceMixin, FilesystemStore):
    """What the library calls `hfs://`."""


class _Bucket(ExtendedKeyspaceMixin, Boto3Store):
    """What the library calls `hs3://`."""


class Plateau:
    """`plateau` on the datasets of a folder."""

    store: Any

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store = _Folder(str(folder))

    def write(self, uuid: str, frames: Sequence[pd.DataFrame], **options: Any) -> None:
        """A new dataset."""
        eager.store_dataframes_as_dataset(
            store=self.store, dataset_uuid=uuid, dfs=list(frames), **options
        )

    def update(self, uuid: str, frames: Sequence[pd.DataFrame], **options: Any) -> None:
        """Partitions are added, and dropped by `delete_scope`."""
        eager.update_dataset_from_dataframes(
            list(frames), store=self.store, dataset_uuid=uuid, **options
        )

    def read(self, uuid: str, predicates: Any = None, **options: Any) -> list[dict[str, Any]]:
        """Rows, filtered if asked for; what pandas calls missing is None."""
        frame = eager.read_table(uuid, store=self.store, predicates=predicates, **options)
        plain = frame.astype(object).where(frame.notna(), None)
        return plain.to_dict("records")

    def opened(self, uuid: str, predicates: Any = None) -> int:
        """How many partitions a filtered read opens."""
        return len(eager.read_dataset_as_dataframes(uuid, store=self.store, predicates=predicates))

    def index(self, uuid: str, column: str) -> dict[Any, list[str]]:
        """A secondary index, as the library loads it."""
        factory = DatasetFactory(uuid, lambda: self.store).load_index(column)
        return {
            value: sorted(labels) for value, labels in factory.indices[column].index_dct.items()
        }

    def delete(self, uuid: str) -> None:
        eager.delete_dataset(uuid, store=self.store)

    def collect(self, uuid: str) -> None:
        """The library's garbage collection."""
        eager.garbage_collect_dataset(uuid, store=self.store)


class PlateauInBucket(Plateau):
    """`plateau` on the datasets below a prefix of a bucket."""

    def __init__(self, url: str) -> None:
        self.store = partial(_bucket, url)  # it wants a store that can be pickled, or its maker


def _bucket(url: str) -> _Bucket:
    place = S3Location.parse(url)
    service = boto3.resource("s3", endpoint_url=place.endpoint, region_name="us-east-1")
    return _Bucket(service.Bucket(place.bucket), object_prefix=place.prefix)
