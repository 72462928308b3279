"""URLs at which clients of a smart transfer fetch and put objects: presigned, or of this node."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import HashMismatch
from odf_protocol.transfer.messages import (
    PROTOCOL_VERSION,
    VERSION_HEADER,
    Header,
    ObjectFileReference,
    ObjectType,
    PullStrategy,
    PushStrategy,
    TransferUrl,
)
from odf_storage.stores.ports import ObjectStore, values
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

KINDS = {ObjectType.DataSlice: ObjectKind.DATA, ObjectType.Checkpoint: ObjectKind.CHECKPOINT}
AT_ONCE = 16
"""Number of objects that are looked up in a bucket in parallel."""
FOLDERS = {ObjectType.DataSlice: "data", ObjectType.Checkpoint: "checkpoints"}


@dataclass(frozen=True, slots=True)
class Links:
    """Makes the transfer strategies for the objects of one dataset, for one caller."""

    objects: ObjectStore
    dataset_url: str
    """URL of the dataset as the client addresses it, with a slash at the end."""
    bearer: str | None = field(repr=False)
    """The caller's token, which we return to it as a header for URLs of this node."""
    ttl: timedelta
    max_object_bytes: int
    """Limit of objects that this node accepts."""

    def missing(self, dataset: DatasetId, files: Sequence[ObjectFileReference]) -> list[ObjectKey]:
        """Return the keys of the files that this node does not have."""
        keys = [_key(dataset, file) for file in files]
        if len(keys) < AT_ONCE:
            found = [self.objects.stat(key) for key in keys]
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = list(pool.map(self.objects.stat, keys))
        return [key for key, info in zip(keys, found, strict=True) if info is None]

    def pull(self, dataset: DatasetId, file: ObjectFileReference) -> PullStrategy:
        """Return how to fetch the file. This does not check that it exists; `missing` does."""
        url = self.objects.download_url(_key(dataset, file), ttl=self.ttl)
        return PullStrategy(object_file=file, download_from=self._given(url, file))

    def push(self, dataset: DatasetId, file: ObjectFileReference) -> PushStrategy:
        """Return how to upload the file; the client skips it if the dataset already has it."""
        key = _key(dataset, file)
        if self._is_here(key):
            return PushStrategy(object_file=file, push_strategy="SkipUpload")
        url = None
        if file.size <= self.max_object_bytes:  # a larger one goes to this node, which refuses it
            url = self.objects.upload_url(key, size=file.size, ttl=self.ttl)
        return PushStrategy(
            object_file=file, push_strategy="HttpUpload", upload_to=self._given(url, file)
        )

    def _is_here(self, key: ObjectKey) -> bool:
        """Return whether the object is stored; settle an upload of an aborted push first."""
        try:
            return self.objects.settle(key) is not None
        except HashMismatch:
            return False

    def _given(self, url: values.TransferUrl | None, file: ObjectFileReference) -> TransferUrl:
        """Return the presigned URL, or the URL of this node with its two headers in this order."""
        if url is not None:
            headers = tuple(Header(name=name, value=value) for name, value in url.headers)
            return TransferUrl(url=url.url, headers=headers, expires_at=url.expires_at)
        own = [Header(name=VERSION_HEADER, value=str(PROTOCOL_VERSION))]
        if self.bearer is not None:
            own.append(Header(name="authorization", value=f"Bearer {self.bearer}"))
        path = f"{FOLDERS[file.object_type]}/{file.physical_hash}"
        return TransferUrl(url=self.dataset_url + path, headers=tuple(own))


def _key(dataset: DatasetId, file: ObjectFileReference) -> ObjectKey:
    return ObjectKey(dataset, KINDS[file.object_type], file.physical_hash)
