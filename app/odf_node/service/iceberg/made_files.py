"""Generation of the files of a table: metadata, lists of manifests, manifests, deleted rows."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from odf_protocol.delta.roaring import positions
from odf_protocol.errors import LimitExceeded
from odf_protocol.iceberg.deletes import delete_file
from odf_protocol.iceberg.manifests import (
    DELETE_PATH_ID,
    Content,
    File,
    Manifest,
    Range,
    manifest_file,
    manifest_list,
)
from odf_protocol.iceberg.metadata import snapshot_id
from odf_storage.datasets.versions.dead_rows import DeadRows

from .file_names import FileName, Kind, NoSuchTableFile
from .table import GROUP, IcebergTable

FILE_MEMORY_BYTES = 64 << 20
"""Bytes of files made for clients of Iceberg that the service remembers."""


class TooManyDeletedRows(LimitExceeded):
    """One slice has more deleted rows than the node lists."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(
            f"{count} rows of one slice were taken back, and {most} can be told: compact the "
            "dataset, or read its changelog",
            limit=most,
            setting="ODF_NODE_ICEBERG_DELETED_ROWS",
        )


class MadeFile(NamedTuple):
    """The bytes of a file, and their SHA-256 in hexadecimal."""

    content: bytes
    tag: str


class FileMemory:
    """A cache of generated files, bounded in bytes. Concurrent threads may generate the same file
    twice."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._size = most_bytes, 0
        self._known: OrderedDict[str, MadeFile] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, path: str) -> MadeFile | None:
        """Return a cached file, None if it is not cached."""
        with self._lock:
            if path not in self._known:
                return None
            self._known.move_to_end(path)
            return self._known[path]

    def get(self, path: str, make: Callable[[], bytes]) -> MadeFile:
        """Return the file from the cache, else call `make` and cache the result."""
        known = self.recall(path)
        if known is not None:
            return known
        content = make()
        made = MadeFile(content, hashlib.sha256(content).hexdigest())
        with self._lock:
            if path not in self._known:
                self._known[path] = made
                self._size += len(content)
            while self._size > self._most:
                _, oldest = self._known.popitem(last=False)
                self._size -= len(oldest.content)
        return made


@dataclass(frozen=True)
class MadeFiles:
    """Generates the files of one table. `dead` has the deleted rows of the requested version."""

    table: IcebergTable
    dead: DeadRows
    memory: FileMemory
    most_snapshots: int
    most_deleted: int

    def get(self, name: FileName) -> MadeFile:
        """Return a file. Raises `NoSuchTableFile`, `TooManyDeletedRows`."""
        make = _MAKE[name.kind]
        return self.memory.get(self.table.path(name), lambda: make(self, *name.numbers))

    def check(self) -> None:
        """Raise `TooManyDeletedRows` if a slice has too many deleted rows."""
        most = max((each.cardinality for each in self.dead.values()), default=0)
        if most > self.most_deleted:
            raise TooManyDeletedRows(most, self.most_deleted)

    def _metadata(self, count: int) -> bytes:
        if count > self._versions:
            raise NoSuchTableFile
        return msgspec.json.encode(self.table.metadata(count, self.most_snapshots))

    def _snapshot(self, number: int) -> bytes:
        if number >= self._versions:
            raise NoSuchTableFile
        told = self.table.snapshot(number)
        return manifest_list(
            self._manifests(number), snapshot=told.id, parent=told.parent, sequence=told.sequence
        )

    def _manifests(self, number: int) -> Iterator[Manifest]:
        deleted = self.table.deleted_as_of(number)
        for group in range(number // GROUP + 1):
            first = group * GROUP
            count = min(GROUP, number + 1 - first)
            name = self.table.name(Kind.DATA, group, count)
            files = list(self.table.files(first, count))
            yield self._manifest(name, Content.DATA, files)
            gone = [] if deleted is None else list(self._deletes(deleted, group))
            if gone:
                name = self.table.name(Kind.DELETES, deleted or 0, group)
                yield self._manifest(name, Content.DELETES, gone)

    def _manifest(self, name: FileName, content: Content, files: list[File]) -> Manifest:
        newest = files[-1]
        return Manifest(
            path=self.table.path(name),
            size=len(self.get(name).content),
            content=content,
            snapshot=newest.snapshot,
            sequence=newest.sequence,
            first_sequence=files[0].sequence,
            files=len(files),
            rows=sum(each.rows for each in files),
        )

    def _data(self, group: int, count: int) -> bytes:
        first = group * GROUP
        if not 0 < count <= GROUP or first + count > self._versions:
            raise NoSuchTableFile
        schema = self.table.schema(first + count - 1)
        return manifest_file(self.table.files(first, count), schema, Content.DATA)

    def _deleted(self, number: int, group: int) -> bytes:
        files = list(self._deletes(number, group))
        if not files:
            raise NoSuchTableFile
        return manifest_file(files, self.table.schema(number), Content.DELETES)

    def _deletes(self, number: int, group: int) -> Iterator[File]:
        """Yield the delete files of a version, one for each slice of the group with deleted
        rows."""
        versions = self.table.found.versions
        made_by = versions[number]
        for version in versions[group * GROUP : min((group + 1) * GROUP, number + 1)]:
            bitmap = self.dead.get(str(version.data.physical_hash))
            if bitmap is None:
                continue
            name = self.table.name(Kind.ROWS, number, version.number)
            path = self.table.slice_path(version)
            bound = path.encode()
            yield File(
                path=self.table.path(name),
                rows=bitmap.cardinality,
                size=len(self.get(name).content),
                snapshot=snapshot_id(made_by.block),
                sequence=number + 1,
                ranges=[Range(DELETE_PATH_ID, bound, bound)],
                deletes_from=path,
            )

    def _rows(self, _: int, number: int) -> bytes:
        if number >= self._versions:
            raise NoSuchTableFile
        version = self.table.found.versions[number]
        bitmap = self.dead.get(str(version.data.physical_hash))
        if bitmap is None:
            raise NoSuchTableFile
        self.check()
        return delete_file(self.table.slice_path(version), positions(bitmap.portable))

    @property
    def _versions(self) -> int:
        return len(self.table.found.versions)


_MAKE: dict[Kind, Callable[..., bytes]] = {
    Kind.METADATA: MadeFiles._metadata,
    Kind.SNAPSHOT: MadeFiles._snapshot,
    Kind.DATA: MadeFiles._data,
    Kind.DELETES: MadeFiles._deleted,
    Kind.ROWS: MadeFiles._rows,
}
