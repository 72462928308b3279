"""The messages between service and reader: frames with a kind and a length. The module is pure.

File descriptors are sent as ancillary data of their `FILE` frame, so a `FILE` frame has no content.
All other contents are JSON, except the bytes of the answer.

The objects of a dataset, hashed, and the files of its index, opened for a reader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from odf_protocol.errors import NodeError
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.kartothek.index_place import index_store
from odf_storage.datasets.pruning.learned import Bounds, Learned
from odf_storage.stores.ports.errors import KeyNotFound, KeyRefused
from odf_storage.stores.ports.values import Failed, ObjectKind

if TYPE_CHECKING:
    from odf_storage.stores.ports import KeyedStore


HEAD = struct.Struct("!BI")
MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Limit of a frame: a task lists every slice of a dataset with about 200 bytes each."""
PIECE_BYTES = 256 * 1024
"""Limit of bytes of an answer in one frame."""


class FrameKind(IntEnum):
    """Kind of a frame. The service sends `TASK`, `FILE`, `ABSENT`; the reader sends the others."""

    TASK = 1
    FILE = 2
    NEED = 3
    REQUIRE = 4
    SIZE = 5
    PIECE = 6
    FAILED = 7
    END = 8
    SLICES = 9
    LEARNED = 10
    ABSENT = 11


MAX_FILES, MAX_FILES_BYTES = 64, 16 << 20
"""Limit of files that a reader requests at once, and the size in bytes of their objects from which
it requests no more: the system sends at most 253 descriptors in one message."""
INDEX_FILE = "index"
"""Kind of a need that names a file of the node's index by its key."""


class Need(msgspec.Struct, frozen=True, array_like=True):
    """An object of this size that the reader requests, or that must exist."""

    kind: str
    hash: str
    size: int = 0

    @property
    def place(self) -> tuple[ObjectKind, Multihash]:
        return ObjectKind(self.kind), Multihash.parse(self.hash)


class OpenedSlices(msgspec.Struct, frozen=True, array_like=True):
    """Numbers of opened and of all slices; sent before the first byte of the answer."""

    scanned: int
    total: int


def frame(kind: FrameKind, content: bytes | memoryview = b"") -> bytes:
    return HEAD.pack(kind, len(content)) + content


def head_of(raw: bytes) -> tuple[FrameKind, int]:
    """Return kind and length of a frame from its header. Raises `ReaderBrokeProtocol`."""
    number, length = HEAD.unpack(raw)
    try:
        kind = FrameKind(number)
    except ValueError:
        raise NodeError("ReaderBrokeProtocol", f"there is no frame of kind {number}") from None
    if length > MAX_FRAME_BYTES:
        raise NodeError("ReaderBrokeProtocol", f"a frame of {length} bytes is too long")
    return kind, length


def needs(wanted: list[Need]) -> bytes:
    return msgspec.json.encode(wanted)


def read_needs(raw: bytes) -> list[Need]:
    return decode_json(raw, list[Need])


def windows(wanted: Iterable[Need]) -> Iterator[list[Need]]:
    """Yield the needs in their order, as many at once as may be requested."""
    window: list[Need] = []
    size = 0
    for need in wanted:
        window.append(need)
        size += need.size
        if len(window) == MAX_FILES or size >= MAX_FILES_BYTES:
            yield window
            window, size = [], 0
    if window:
        yield window


def slices_frame(opened: OpenedSlices) -> bytes:
    return frame(FrameKind.SLICES, msgspec.json.encode(opened))


def read_slices(raw: bytes) -> OpenedSlices:
    return decode_json(raw, OpenedSlices)


def learned_frame(learned: list[Learned]) -> bytes:
    """Return a frame with bounds of slices that the reader has found."""
    return frame(FrameKind.LEARNED, msgspec.json.encode(learned))


def read_learned(raw: bytes) -> list[Learned]:
    return decode_json(raw, list[tuple[str, str, Bounds]])


def failed_frame(failed: Failed) -> bytes:
    told = [failed.error, failed.message, failed.facts, failed.branch]
    return frame(FrameKind.FAILED, msgspec.json.encode(told, enc_hook=str))


def read_failed(raw: bytes) -> Failed:
    error, message, facts, branch = decode_json(raw, tuple[str, str, dict[str, Any], str])
    return Failed(error, message, facts, branch)


class Materials:
    """Opens everything that the readers of one dataset may request."""

    def __init__(self, dataset: Dataset, projections: KeyedStore) -> None:
        self._dataset = dataset
        self.index = index_store(projections, dataset.id)

    def open_whole(self, kind: ObjectKind, name: Multihash) -> BinaryIO:
        """Open an object whose hash was checked. Raises `ObjectDamaged`."""
        return self._dataset.open_whole(kind, name)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """Do the same as `Dataset.require`."""
        self._dataset.require(kind, wanted)

    def open_index(self, key: str) -> BinaryIO | None:
        """Open a file of the index; None if it does not exist."""
        try:
            return self.index.open(key)
        except (KeyNotFound, KeyRefused):
            return None
