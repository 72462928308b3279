"""Object store in memory: for tests and for throw-away nodes.

Hands out no URLs; everything is gone with the process.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import BinaryIO

from protocol.identity import DatasetAlias, DatasetId
from protocol.multihash import HashMismatch, Multihash

from ..errors import ObjectNotFound
from ..layout import ref_path
from ..values import ObjectInfo, ObjectKey, TransferUrl


class MemoryObjectStore:
    """`ObjectStore` in a dictionary."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, bytes] = {}
        self._refs: dict[tuple[DatasetId, str], Multihash] = {}
        self._aliases: dict[DatasetId, DatasetAlias] = {}
        self._lock = threading.Lock()

    def stat(self, key: ObjectKey) -> ObjectInfo | None:
        content = self._objects.get(key)
        return None if content is None else ObjectInfo(key, len(content))

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
            self._objects.setdefault(key, content)
        return ObjectInfo(key, len(content))

    def delete(self, key: ObjectKey) -> None:
        with self._lock:
            self._objects.pop(key, None)

    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]:
        with self._lock:
            keys = [key for key in self._objects if key.dataset == dataset]
        for key in keys:
            if (info := self.stat(key)) is not None:
                yield info

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

    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        return self.stat(key)

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        ref_path(ref)  # the same names are refused everywhere
        with self._lock:
            self._refs[dataset, ref] = head

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        return self._refs.get((dataset, ref))

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        with self._lock:
            self._aliases[dataset] = alias

    def remove(self, dataset: DatasetId) -> None:
        with self._lock:
            for key in [key for key in self._objects if key.dataset == dataset]:
                del self._objects[key]
            for name in [name for name in self._refs if name[0] == dataset]:
                del self._refs[name]
            self._aliases.pop(dataset, None)
