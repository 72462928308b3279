"""Where clients of a smart transfer fetch and put objects: presigned, or this node itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import HashMismatch
from odf_node.protocol.transfer.messages import (
    PROTOCOL_VERSION,
    VERSION_HEADER,
    Header,
    ObjectFileReference,
    ObjectType,
    PullStrategy,
    PushStrategy,
    TransferUrl,
)
from odf_node.storage.stores.ports import ObjectStore, values
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind

KINDS = {ObjectType.DataSlice: ObjectKind.DATA, ObjectType.Checkpoint: ObjectKind.CHECKPOINT}
AT_ONCE = 16
"""Objects a bucket is asked for at a time."""
FOLDERS = {ObjectType.DataSlice: "data", ObjectType.Checkpoint: "checkpoints"}


@dataclass(frozen=True, slots=True)
class Links:
    """Strategies for the objects of one dataset, as one caller may use them."""

    objects: ObjectStore
    dataset_url: str
    """The dataset as the client addresses it, with a slash at the end."""
    bearer: str | None = field(repr=False)
    """The caller's own token, handed back for the way through the node."""
    ttl: timedelta

    def missing(self, dataset: DatasetId, files: Sequence[ObjectFileReference]) -> list[ObjectKey]:
        """Those that are not here."""
        keys = [_key(dataset, file) for file in files]
        if len(keys) < AT_ONCE:
            found = [self.objects.stat(key) for key in keys]
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = list(pool.map(self.objects.stat, keys))
        return [key for key, info in zip(keys, found, strict=True) if info is None]

    def pull(self, dataset: DatasetId, file: ObjectFileReference) -> PullStrategy:
        """How to fetch it; whether it exists is asked by `missing`."""
        url = self.objects.download_url(_key(dataset, file), ttl=self.ttl)
        return PullStrategy(object_file=file, download_from=self._given(url, file))

    def push(self, dataset: DatasetId, file: ObjectFileReference) -> PushStrategy:
        """How to put it; nothing to do when this dataset has it already, and keeps it."""
        key = _key(dataset, file)
        if self._is_here(key):
            return PushStrategy(object_file=file, push_strategy="SkipUpload")
        url = self.objects.upload_url(key, size=file.size, ttl=self.ttl)
        return PushStrategy(
            object_file=file, push_strategy="HttpUpload", upload_to=self._given(url, file)
        )

    def _is_here(self, key: ObjectKey) -> bool:
        """Also when a push that broke off put it by URL, and nobody has taken it in yet."""
        try:
            return self.objects.settle(key) is not None
        except HashMismatch:
            return False

    def _given(self, url: values.TransferUrl | None, file: ObjectFileReference) -> TransferUrl:
        """The presigned URL, or the node's own: its two headers, in this order."""
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
