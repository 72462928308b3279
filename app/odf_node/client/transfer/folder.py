"""A dataset folder as a repository: readable like a URL, and a target of pulls.

The order of writes makes an interrupted pull harmless: objects, then blocks, then `refs/head`.
Readers see no change until the head is written. A later pull finds the leftover objects, checks
them, and does not fetch them again.

Format, length and content of local files that are sent to a node.

Sort several manifests so that inputs come first. This needs no connection.
"""

from __future__ import annotations

import fcntl
import io
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetSnapshot, HashedBlock, SetTransform
from odf_protocol.multihash import Multihash
from odf_protocol.sources.csv_header import WORKBOOK_TYPES
from odf_storage.stores.objects.files import remove_abandoned
from odf_storage.stores.objects.layout import HEAD, KIND_FOLDERS, ref_path
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind

from ..nodes.http import CHUNK_BYTES, DatasetMissing
from ..nodes.limits import LIMITS, ClientLimits, too_much
from ..nodes.repositories import malformed_head
from .receive import NeededObject, check_follows, object_size_mismatch

LOCK = ".pull-lock"
KNOWN_ENTRIES = frozenset({*KIND_FOLDERS.values(), "info", "refs"})


class FolderRepository:
    """The folder of one dataset; `odf_storage/stores/objects/layout.py` defines its layout."""

    def __init__(self, path: Path, *, limits: ClientLimits = LIMITS) -> None:
        self.path = path
        self._objects, self._limits = FolderObjects(path), limits
        self._blocks = f"{path}/{KIND_FOLDERS[ObjectKind.BLOCK]}"

    @property
    def name(self) -> str:
        return str(self.path)

    def find_head(self) -> Multihash | None:
        found = self._objects.read_ref(HEAD)
        reference = self.path / ref_path(HEAD)
        if found is None and reference.is_file():
            with reference.open("rb") as stream:
                raise malformed_head(stream.read(100), self.name)
        return found

    def head(self) -> Multihash:
        found = self.find_head()
        if found is None:
            raise DatasetMissing(f"no dataset in {self.path}", at=str(self.path))
        return found

    def block_bytes(self, block: Multihash) -> bytes:
        limit = self._limits.block_bytes
        try:
            handle = os.open(f"{self._blocks}/{block}", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectNotFound(ObjectKind.BLOCK, block) from None
        with open(handle, "rb", buffering=0) as stream:  # noqa: PTH123 - a path costs as much
            # if asked for more than the file has, `read` would keep a page of memory per block
            size = os.fstat(handle).st_size
            if size > limit:
                raise too_much(f"block {block}", limit)
            return read_exactly(stream, size)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._objects.open(kind, object_hash)

    def size_of(self, kind: ObjectKind, object_hash: Multihash) -> int | None:
        """Return the size of an object, or None if it is not here. Does not hash it."""
        info = self._objects.stat(kind, object_hash)
        return None if info is None else info.size

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Return whether the object is here and undamaged; delete a damaged one.

        Raises:
            ObjectSizeMismatch: the object is undamaged, so the size that its block says is wrong.
        """
        try:
            with self._objects.open(kind, object_hash) as stream:
                actual = os.fstat(stream.fileno()).st_size
                is_whole = Multihash.of_chunks(chunks_of(stream)) == object_hash
        except ObjectNotFound:
            return False
        if not is_whole:
            self._objects.delete(kind, object_hash)
        elif actual != size:
            raise object_size_mismatch(NeededObject(kind, object_hash, size), actual)
        return is_whole

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> None:
        """Write and hash under a pending name, then rename. Raises `HashMismatch`."""
        self._objects.put(kind, object_hash, chunks)

    def put_all(self, objects: Sequence[tuple[ObjectKind, Multihash, bytes]]) -> None:
        for kind in dict.fromkeys(kind for kind, _, _ in objects):
            of_kind = ((name, content) for each, name, content in objects if each is kind)
            self._objects.put_all(kind, of_kind)

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        """Check the blocks as `Target.check` specifies."""
        check_follows(self, new, old=old, force=force, limits=self._limits)

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        """Write the blocks, then the head, and remove pending files of killed pulls.

        Call this under `locked()`.

        Raises:
            FolderBusy: the head is no longer `expected`.
        """
        remove_abandoned(self.path, before=Instant(time.time_ns()))
        self._objects.put_all(ObjectKind.BLOCK, ((block.hash, block.raw) for block in new))
        if self.find_head() != expected:
            raise Conflict(
                "FolderBusy", f"the head in {self.path} was moved by somebody else", at=self.name
            )
        self._objects.write_ref(HEAD, new[-1].hash)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if necessary, and lock it against other pulls."""
        self._refuse_foreign_folder()
        self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    "FolderBusy",
                    f"another pull is writing to {self.path}; wait for it",
                    at=self.name,
                ) from None
            yield
        finally:
            os.close(handle)

    def _refuse_foreign_folder(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise BadInput("NotADatasetFolder", f"{self.path} is not a folder", at=self.name)
        strangers = [
            entry.name
            for entry in self.path.iterdir()
            if entry.name not in KNOWN_ENTRIES and not entry.name.startswith(".")
        ]
        if strangers:
            raise BadInput(
                "NotADatasetFolder",
                f"{self.path} holds something that is no dataset ({min(strangers)}); "
                "name a new or empty folder",
                at=self.name,
            )


def read_exactly(stream: RawIOBase, size: int) -> bytes:
    """Return `size` bytes, fewer only at the end."""
    piece = stream.read(size) or b""
    while len(piece) < size and (more := stream.read(size - len(piece))):
        piece += more
    return piece


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a stream in pieces of limited size."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


FILE_TYPES: dict[str, str] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "text/csv"),
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".geojson": "application/geo+json",
    ".ndgeojson": "application/x-ndgeojson",
    ".geojsonl": "application/x-ndgeojson",
    ".parquet": "application/vnd.apache.parquet",
    ".arrows": "application/vnd.apache.arrow.stream",
    **{f".{ending}": kind for ending, kind in WORKBOOK_TYPES.items()},
    ".shp": "application/vnd.shp",
}
"""Media types by file extension, as nodes know them."""


IN_MEMORY_BYTES = 64 << 20
"""Content of a pipe that is longer is kept on disk until it has arrived."""


class Sendable:
    """The content of a stream, which can be read again from its beginning.

    What was read of a pipe is kept in a temporary file, so the limit of the node on a body is also
    that of the file.
    """

    def __init__(self, stream: BinaryIO, kept: BinaryIO) -> None:
        self.size = _size(stream)
        """Bytes from where the stream is to its end; None for a pipe."""
        self._stream, self._kept = stream, kept
        self._start = 0 if self.size is None else stream.tell()

    def chunks(self) -> Iterator[bytes]:
        """Yield the content from its beginning."""
        if self.size is not None:
            self._stream.seek(self._start)
            yield from chunks_of(self._stream)
            return
        self._kept.seek(0)
        yield from chunks_of(self._kept)
        for chunk in chunks_of(self._stream):
            self._kept.write(chunk)
            yield chunk


@contextmanager
def sendable(stream: BinaryIO) -> Iterator[Sendable]:
    """Yield the content of a file or pipe for requests that may be repeated."""
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as kept:
        yield Sendable(stream, cast("BinaryIO", kept))


def _size(stream: BinaryIO) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, io.UnsupportedOperation):
        return None
    return status.st_size - stream.tell() if stat.S_ISREG(status.st_mode) else None


def in_order(snapshots: Sequence[DatasetSnapshot]) -> list[DatasetSnapshot]:
    """Sort inputs before their derivatives. Raises `CircularInputs`, `NameGivenTwice`."""
    by_name: dict[str, DatasetSnapshot] = {}
    for one in snapshots:
        if by_name.setdefault(one.name.folded, one) is not one:
            raise BadInput(
                "NameGivenTwice", f"two manifests are about {one.name}", dataset=str(one.name)
            )
    graph = {name: inputs_among(one, by_name) for name, one in by_name.items()}
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as circle:
        names = [str(by_name[name].name) for name in reversed(circle.args[1])]
        raise BadInput(
            "CircularInputs",
            f"datasets are computed from each other: {' from '.join(names)}",
            datasets=names,
        ) from None


def inputs_among(one: DatasetSnapshot, names: dict[str, DatasetSnapshot]) -> list[str]:
    """Return the names of inputs that also have a manifest."""
    events = [event for event in one.metadata if isinstance(event, SetTransform)]
    found = [each.dataset_ref.alias for event in events for each in event.inputs]
    wanted = [_folded(alias, one.name) for alias in found if alias is not None]
    return [
        next(name for name in spelled if name in names)
        for spelled in wanted
        if any(name in names for name in spelled)
    ]


def _folded(alias: DatasetAlias, of: DatasetAlias) -> tuple[str, ...]:
    """Return the spellings of an input in its manifest: with the account or without."""
    with_account = alias if alias.account else DatasetAlias(alias.name, of.account)
    return alias.folded, with_account.folded
