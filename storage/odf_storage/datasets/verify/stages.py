"""Independent parts of a verification (splits), and runners that process them.

A stage is a function of a source of objects and of one split. It keeps no state between splits
that affects results, so they are the same in threads of this process (`InThreads`) and in any
other `Runner`. Stages can be pickled: they are functions of modules, with values bound by
`functools.partial`.

Sources of a dataset to verify or read: the store of this node, a folder, or another one.

Committed rows that were not hashed yet: a note beside the objects (`info/unverified`).

It is written before the head moves, so that unverified rows never count as verified. A job removes
it, and so does a complete verification that finds nothing wrong. A note that cannot be read counts
as a mark of the whole chain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json

from ...lanes import THREADS, expect
from ...stores.objects.layout import HEAD, MAX_INFO_BYTES
from ...stores.objects.pending_files import FolderObjects
from ...stores.ports import DatasetNotes
from ...stores.ports.errors import RefNotFound
from ...stores.ports.values import ObjectKind
from ..contents.linked import NamedObject

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset


class ObjectSource(Protocol):
    """Objects of a dataset. Raises `NotFound` for a missing one. Called from several threads."""

    def open_object(self, kind: ObjectKind, object_hash: Multihash, /) -> BinaryIO: ...


class ChainSource(ObjectSource, Protocol):
    """A dataset to verify or read, from any source. Raises `NotFound` for missing parts."""

    def head(self) -> Multihash: ...
    def block_bytes(self, block: Multihash, /) -> bytes: ...


@runtime_checkable
class HashingSource(Protocol):
    """A source that verifies the hash of objects when it opens them, and can check beforehand
    that objects exist."""

    def open_whole(self, kind: ObjectKind, object_hash: Multihash, /) -> BinaryIO: ...
    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /) -> None: ...


class DatasetSource:
    """A dataset of this node: head of the index, blocks and objects of the object store."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def head(self) -> Multihash:
        return self._dataset.head()

    def block_bytes(self, block: Multihash) -> bytes:
        with self.open_object(ObjectKind.BLOCK, block) as stream:
            return stream.read(MAX_BLOCK_BYTES)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._dataset.open_object(kind, object_hash)

    def open_whole(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        """Open an object to compute with, its hash verified; `open_object` is for checks, which
        hash it themselves. Raise `ObjectDamaged`."""
        return self._dataset.open_whole(kind, object_hash)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """As `Dataset.require`."""
        self._dataset.require(kind, wanted)


class FolderSource:
    """A dataset in a folder."""

    def __init__(self, folder: FolderObjects) -> None:
        self._folder = folder

    def head(self) -> Multihash:
        """Return the head. Raise `RefNotFound` if the folder has no dataset."""
        head = self._folder.read_ref(HEAD)
        if head is None:
            raise RefNotFound(HEAD)
        return head

    def block_bytes(self, block: Multihash) -> bytes:
        with self._folder.open(ObjectKind.BLOCK, block) as stream:
            return stream.read(MAX_BLOCK_BYTES)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._folder.open(kind, object_hash)


W = TypeVar("W")
R = TypeVar("R")
Stage = Callable[[ObjectSource, W], R]


@dataclass(frozen=True, slots=True)
class Split(Generic[W]):
    """A part of a verification, and the objects that it opens."""

    work: W
    objects: tuple[NamedObject, ...]

    @property
    def size(self) -> int:
        """Bytes of the objects, as far as blocks declare them."""
        return sum(each.size for each in self.objects)


class Runner(Protocol):
    """Runs the stages of one verification."""

    @property
    def width(self) -> int:
        """Number of splits that run in parallel."""

    @property
    def splits(self) -> int:
        """Number of splits that were started so far."""

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """Yield the result of the stage for each split, in the order of the splits.

        Raises: the error of the stage for the first split, in that order, that fails.
        """


Where = Callable[[ChainSource, int], Runner]
"""Returns the runner for a source and the total bytes of objects that its blocks name."""


class InThreads:
    """Runner that uses threads of this process."""

    def __init__(self, source: ObjectSource, threads: int) -> None:
        self._source, self.width = source, threads
        self.splits = 0

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """As `Runner.run`. Submit at most one split more than there are threads before the first
        result is yielded; if the caller stops, wait for the splits that are running."""
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self.width, thread_name_prefix="verify") as pool:
            try:
                for split in splits:
                    self.splits += 1
                    waiting.append(pool.submit(stage, self._source, split.work))
                    if len(waiting) > self.width:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def in_threads(source: ChainSource, size: int, *, threads: int = THREADS) -> InThreads:
    """The default `Where`: run in threads of this process."""
    expect(size)
    return InThreads(source, threads)


NOTE = "unverified"


class Unverified(Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks whose rows were not checked yet: those after `after`, up to `upto`."""

    after: str | None
    """None: from the first block."""
    upto: str | None
    """None: up to the head."""
    since: str | None
    problem: str | None = None
    """Why the rows do not match their blocks, once a check has found it."""
    by: str = ""
    """Identifies the push that wrote the note."""


UNREADABLE = Unverified(
    after=None, upto=None, since=None, problem="the note on unverified rows cannot be read"
)


def write_unverified(objects: DatasetNotes, dataset: DatasetId, note: Unverified | None) -> None:
    """Store the note, or remove it if None. The end of a problem that is too long is cut off."""
    raw = b"" if note is None else msgspec.json.encode(note)
    while note is not None and note.problem and len(raw) > MAX_INFO_BYTES:
        note = replace(note, problem=note.problem[: len(note.problem) * 3 // 4])
        raw = msgspec.json.encode(note)
    objects.write_info(dataset, NOTE, raw.decode())


def read_unverified(objects: DatasetNotes, dataset: DatasetId) -> Unverified | None:
    """Return the note; None if all rows were checked, before or after their commit."""
    text = objects.read_info(dataset, NOTE)
    if not text:
        return None
    try:
        return decode_json(text.encode(), Unverified)
    except msgspec.MsgspecError:
        return UNREADABLE
