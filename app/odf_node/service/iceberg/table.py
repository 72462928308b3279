"""A view of a dataset as an Iceberg table: its snapshots, with their schemas and files.

Everything is computed from the versions of the dataset and its name. Nothing is stored.

Names of generated files of a table. A name determines the content of its file, which never
changes.

Generation of the files of a table: metadata, lists of manifests, manifests, deleted rows.
"""

from __future__ import annotations

import hashlib
import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from odf_protocol.chain.schema_evolution import odf_schema
from odf_protocol.delta.vectors import positions
from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.iceberg.deletes import delete_file
from odf_protocol.iceberg.manifests import (
    DELETE_PATH_ID,
    File,
    FileContent,
    IcebergManifest,
    Range,
    bound,
    manifest_file,
    manifest_list,
)
from odf_protocol.iceberg.metadata import (
    IcebergSchema,
    IcebergSchemas,
    Snapshot,
    snapshot_id,
    table_metadata,
)
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.versions.dead_rows import DeadRows
from odf_storage.datasets.versions.versions import Version

from ..history.versions import Versioned
from ..sharing.names import VIEWS


class FileKind(StrEnum):
    """The kind of a file, which determines the numbers in its name."""

    METADATA = "table"
    """Table metadata. The number is the count of versions."""
    SNAPSHOT = "snapshot"
    """The list of manifests of a version. The number is that version."""
    DATA = "data"
    """A manifest of slices. The numbers are the group, and the count of its versions."""
    DELETES = "deletes"
    """A manifest of delete files. The numbers are the version and the group."""
    ROWS = "rows"
    """The deleted rows of a slice. The numbers are the version, and the version of the slice."""


_NUMBERS = {
    FileKind.METADATA: 1,
    FileKind.SNAPSHOT: 1,
    FileKind.DATA: 2,
    FileKind.DELETES: 2,
    FileKind.ROWS: 2,
}
_ENDS = {FileKind.METADATA: "metadata.json", FileKind.ROWS: "parquet"}
_AVRO = "avro"
_NAME = re.compile(
    r"(table|snapshot|data|deletes|rows)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"-(0|[1-9][0-9]{0,11})(?:-(0|[1-9][0-9]{0,11}))?\.(avro|parquet|metadata\.json)",
    re.ASCII,
)


def no_such_table_file() -> NotFound:
    """The name is not that of a file of a table with the current history of the dataset."""
    return NotFound(
        "NoSuchTableFile",
        "there is no such file; the history of the dataset may have been replaced, then load "
        "the table again",
    )


@dataclass(frozen=True, slots=True)
class FileName:
    """The parsed name of a file. `identity` is the identity of the table."""

    kind: FileKind
    identity: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        told = "-".join(str(each) for each in self.numbers)
        return f"{self.kind}-{self.identity}-{told}.{_ENDS.get(self.kind, _AVRO)}"

    @classmethod
    def parse(cls, text: str) -> FileName:
        """Parse a name. Raises `NoSuchTableFile`."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise no_such_table_file()
        numbers = tuple(int(each) for each in match.groups()[2:4] if each is not None)
        name = cls(FileKind(match[1]), match[2], numbers)
        if len(numbers) != _NUMBERS[name.kind] or str(name) != text:
            raise no_such_table_file()
        return name


GROUP = 256
"""Number of versions whose slices are in one manifest. A full manifest never changes."""


@dataclass(frozen=True)
class IcebergTable:
    """The table as of the head of the dataset."""

    found: Versioned
    view: str
    """A key of `VIEWS`."""
    location: str
    """The URL `s3://…` below which all files are."""

    @property
    def projection(self) -> Projection:
        return VIEWS[self.view]

    @cached_property
    def identity(self) -> str:
        """The identity of the table: of this view of this history."""
        return self.found.history.identity(self.found.dataset.id, self.view)

    @cached_property
    def schemas(self) -> IcebergSchemas:
        told = [odf_schema(event) for _, event in self.found.outline.schemas]
        return IcebergSchemas(told or [DataSchema(fields=())])

    def schema(self, number: int) -> IcebergSchema:
        """Return the schema of a version, or that of the head if there are no versions."""
        starts = [before for before, _ in self.found.outline.schemas]
        at = bisect_right(starts, number) - 1 if len(self.found.versions) else -1
        return self.schemas.all[at]

    def check_types(self) -> None:
        """Raise `NotInIceberg` if clients of Iceberg do not read a column as it is."""
        foreign = self.schemas.all[-1].foreign
        if foreign:
            raise BadInput(
                "NotInIceberg",
                f"Iceberg has no type for the columns {', '.join(foreign)[:300]}: it lacks "
                "unsigned numbers of 32 and 64 bits, decimals above 38 digits, half-precision "
                "floats, nulls, and times of day in units other than microseconds. Read the "
                "dataset by GET …/read of the node",
                columns=list(foreign[:20]),
            )

    def path(self, name: FileName) -> str:
        """Return the URL of a generated file."""
        return f"{self.location}/iceberg/{name}"

    def name(self, kind: FileKind, *numbers: int) -> FileName:
        return FileName(kind, self.identity, numbers)

    def snapshot(self, number: int) -> Snapshot:
        version = self.found.versions[number]
        before = self.found.versions[number - 1] if number else None
        return Snapshot(
            id=snapshot_id(version.block),
            parent=None if before is None else snapshot_id(before.block),
            sequence=number + 1,
            made_ms=version.recorded.millis,
            manifests=self.path(self.name(FileKind.SNAPSHOT, number)),
            schema=self.schema(number).number,
            block=str(version.block),
            only_adds=self.deleted_as_of(number) != number,
        )

    def deleted_as_of(self, number: int) -> int | None:
        """Return the version whose delete files also apply to this version; None if no row is
        deleted."""
        return self.found.changed_as_of(number, self.projection)

    def metadata(self, count: int, most: int) -> dict[str, Any]:
        """Return the metadata of the table with its first `count` versions. It lists the newest
        `most` of them."""
        snapshots = [self.snapshot(number) for number in range(max(count - most, 0), count)]
        numbers = {each.schema for each in snapshots} or {self.schema(0).number}
        return table_metadata(
            identity=self.identity,
            location=self.location,
            created_ms=self.found.dataset.entry.created_at.millis,
            schemas=self.schemas,
            shown=[self.schemas.all[each] for each in sorted(numbers)],
            snapshots=snapshots,
            properties={"odf.dataset": str(self.found.dataset.id), "odf.view": self.view},
        )

    def slice_path(self, version: Version) -> str:
        return f"{self.location}/data/{version.data.physical_hash}"

    def files(self, first: int, count: int) -> Iterator[File]:
        """Yield the slices of `count` versions, beginning with `first`."""
        for version in self.found.versions[first : first + count]:
            yield File(
                path=self.slice_path(version),
                rows=version.rows,
                size=version.data.size,
                snapshot=snapshot_id(version.block),
                sequence=version.number + 1,
                ranges=self._ranges(version),
            )

    def _ranges(self, version: Version) -> list[Range]:
        """Return the ranges of columns that follow from the block, without opening the slice."""
        vocab, schema = self.found.outline.vocab, self.schema(version.number)
        ranges = []
        offset = schema.column(vocab.offset_column)
        if offset is not None:
            number, kind = offset
            interval = version.data.offset_interval
            lower, upper = bound(kind, interval.start), bound(kind, interval.end)
            ranges.append(Range(number, lower, upper, nulls=0))
        time = schema.column(vocab.system_time_column)
        if time is not None and time[1].startswith("timestamp"):
            # the system time of a row is at most that of its block
            latest = (version.recorded.millis + 2) * 1000 - 1
            ranges.append(Range(time[0], None, bound(time[1], latest)))
        return ranges


FILE_MEMORY_BYTES = 64 << 20
"""Bytes of files made for clients of Iceberg that the service remembers."""


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
            raise LimitExceeded(
                "TooManyDeletedRows",
                f"{most} rows of one slice were taken back, and {self.most_deleted} can be told: "
                "compact the dataset, or read its changelog",
                limit=self.most_deleted,
                setting="ODF_NODE_ICEBERG_DELETED_ROWS",
            )

    def _metadata(self, count: int) -> bytes:
        if count > self._versions:
            raise no_such_table_file()
        return msgspec.json.encode(self.table.metadata(count, self.most_snapshots))

    def _snapshot(self, number: int) -> bytes:
        if number >= self._versions:
            raise no_such_table_file()
        told = self.table.snapshot(number)
        return manifest_list(
            self._manifests(number), snapshot=told.id, parent=told.parent, sequence=told.sequence
        )

    def _manifests(self, number: int) -> Iterator[IcebergManifest]:
        deleted = self.table.deleted_as_of(number)
        for group in range(number // GROUP + 1):
            first = group * GROUP
            count = min(GROUP, number + 1 - first)
            name = self.table.name(FileKind.DATA, group, count)
            files = list(self.table.files(first, count))
            yield self._manifest(name, FileContent.DATA, files)
            gone = [] if deleted is None else list(self._deletes(deleted, group))
            if gone:
                name = self.table.name(FileKind.DELETES, deleted or 0, group)
                yield self._manifest(name, FileContent.DELETES, gone)

    def _manifest(self, name: FileName, content: FileContent, files: list[File]) -> IcebergManifest:
        newest = files[-1]
        return IcebergManifest(
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
            raise no_such_table_file()
        schema = self.table.schema(first + count - 1)
        return manifest_file(self.table.files(first, count), schema, FileContent.DATA)

    def _deleted(self, number: int, group: int) -> bytes:
        files = list(self._deletes(number, group))
        if not files:
            raise no_such_table_file()
        return manifest_file(files, self.table.schema(number), FileContent.DELETES)

    def _deletes(self, number: int, group: int) -> Iterator[File]:
        """Yield the delete files of a version, one for each slice of the group with deleted
        rows."""
        versions = self.table.found.versions
        made_by = versions[number]
        for version in versions[group * GROUP : min((group + 1) * GROUP, number + 1)]:
            bitmap = self.dead.get(str(version.data.physical_hash))
            if bitmap is None:
                continue
            name = self.table.name(FileKind.ROWS, number, version.number)
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
            raise no_such_table_file()
        version = self.table.found.versions[number]
        bitmap = self.dead.get(str(version.data.physical_hash))
        if bitmap is None:
            raise no_such_table_file()
        self.check()
        return delete_file(self.table.slice_path(version), positions(bitmap.portable))

    @property
    def _versions(self) -> int:
        return len(self.table.found.versions)


_MAKE: dict[FileKind, Callable[..., bytes]] = {
    FileKind.METADATA: MadeFiles._metadata,
    FileKind.SNAPSHOT: MadeFiles._snapshot,
    FileKind.DATA: MadeFiles._data,
    FileKind.DELETES: MadeFiles._deleted,
    FileKind.ROWS: MadeFiles._rows,
}
