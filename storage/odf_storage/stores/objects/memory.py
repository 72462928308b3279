"""Object store in memory, for tests.

It offers no URLs, and its objects are lost when the process ends.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import BinaryIO

from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import HashMismatch, Multihash

from ...runtime.clock import Clock, system_clock
from ..ports import LocalPaths, PartialUploads
from ..ports.errors import ObjectNotFound
from ..ports.values import BucketPlace, ObjectInfo, ObjectKey, ObjectKind, TransferUrl
from .layout import ALIAS, info_path, ref_path


class MemoryObjectStore:
    """`ObjectStore` in a dictionary."""

    local_paths: LocalPaths | None = None
    partial: PartialUploads | None = None

    def __init__(self, *, clock: Clock = system_clock) -> None:
        self._objects: dict[ObjectKey, bytes] = {}
        self._modified: dict[ObjectKey, Instant] = {}
        self._quarantine: dict[ObjectKey, bytes] = {}
        self._refs: dict[tuple[DatasetId, str], Multihash] = {}
        self._infos: dict[tuple[DatasetId, str], str] = {}
        self._lock = threading.RLock()
        self._clock = clock

    def stat(self, key: ObjectKey) -> ObjectInfo | None:
        with self._lock:
            content = self._objects.get(key)
            if content is None:
                return None
            return ObjectInfo(key, len(content), self._modified[key])

    def open(self, key: ObjectKey, *, offset: int = 0) -> BinaryIO:
        content = self._objects.get(key)
        if content is None:
            raise ObjectNotFound(key.kind, key.hash)
        stream = io.BytesIO(content)
        stream.seek(offset)
        return stream

    def put(self, key: ObjectKey, chunks: Iterable[bytes]) -> ObjectInfo:
        content = b"".join(chunks)
        actual = Multihash.of(content)
        if actual != key.hash:
            raise HashMismatch(key.hash, actual)
        with self._lock:
            self._objects[key] = content
            self._modified[key] = self._clock()
            return ObjectInfo(key, len(content), self._modified[key])

    def put_blocks(self, dataset: DatasetId, blocks: Iterable[tuple[Multihash, bytes]]) -> None:
        for name, raw in blocks:
            self.put(ObjectKey(dataset, ObjectKind.BLOCK, name), (raw,))

    def put_all(self, objects: Sequence[tuple[ObjectKey, bytes]]) -> None:
        for key, content in objects:
            self.put(key, (content,))

    def delete(self, key: ObjectKey) -> None:
        with self._lock:
            self._objects.pop(key, None)
            self._modified.pop(key, None)

    def renew(self, key: ObjectKey) -> ObjectInfo | None:
        with self._lock:
            if key in self._objects:
                self._modified[key] = self._clock()
            return self.stat(key)

    def discard(self, key: ObjectKey, *, before: Instant) -> bool:
        with self._lock:
            old = key in self._objects and self._modified[key] < before
            if old:
                self.delete(key)
            return old

    def quarantine(self, key: ObjectKey) -> bool:
        with self._lock:
            here = key in self._objects
            if here:
                self._quarantine[key] = self._objects[key]
                self.delete(key)
            return here

    def remove_abandoned(self, *, before: Instant, dry_run: bool = False) -> int:  # noqa: ARG002
        return 0

    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]:
        with self._lock:
            keys = [key for key in self._objects if key.dataset == dataset]
        for key in keys:
            if (info := self.stat(key)) is not None:
                yield info

    def datasets(self) -> Iterator[DatasetId]:
        with self._lock:
            named = {name[0] for name in (*self._refs, *self._infos)}
            found = named | {key.dataset for key in self._objects}
        yield from sorted(found)

    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None:  # noqa: ARG002
        return None

    def upload_url(
        self,
        key: ObjectKey,  # noqa: ARG002
        *,
        size: int | None,  # noqa: ARG002
        ttl: timedelta,  # noqa: ARG002
    ) -> TransferUrl | None:
        return None

    def copy_source(self, key: ObjectKey) -> BucketPlace | None:  # noqa: ARG002
        return None

    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        return self.renew(key)

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        ref_path(ref)  # refuse the same names as the other stores
        with self._lock:
            self._refs[dataset, ref] = head

    def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
        for dataset, head in heads.items():
            self.write_ref(dataset, ref, head)

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        return self._refs.get((dataset, ref))

    def remove_ref(self, dataset: DatasetId, ref: str) -> None:
        with self._lock:
            self._refs.pop((dataset, ref), None)

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        self.write_info(dataset, ALIAS, str(alias))

    def read_alias(self, dataset: DatasetId) -> DatasetAlias | None:
        text = self.read_info(dataset, ALIAS)
        return None if text is None else DatasetAlias.parse(text)

    def write_info(self, dataset: DatasetId, name: str, text: str) -> None:
        info_path(name)
        with self._lock:
            self._infos[dataset, name] = text

    def read_info(self, dataset: DatasetId, name: str) -> str | None:
        return self._infos.get((dataset, name))

    def close(self) -> None:
        """Do nothing; the objects stay."""

    def remove(self, dataset: DatasetId) -> None:
        with self._lock:
            for key in [key for key in self._objects if key.dataset == dataset]:
                self.delete(key)
            for name in [name for name in self._refs if name[0] == dataset]:
                del self._refs[name]
            for name in [name for name in self._infos if name[0] == dataset]:
                del self._infos[name]
