"""Make the rows of the index from stored blocks: hash each block and decode only its frame.

Blocks in a local folder are read without the object store: there are millions of small files, and
building a path, requesting a size and buffering a stream would each cost as much as hashing the
block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES, peek_block
from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from ...stores.objects.layout import PENDING_PREFIX
from ...stores.ports import LocatedObjects, Objects
from ...stores.ports.values import ObjectKey, ObjectKind

BATCH = 500
FIRST_READ = 64 << 10

Row = tuple[bytes, bytes, int, bytes | None, str, bytes]
"""A block as the database driver expects it: dataset, hash, sequence number, prev, kind, raw."""
Read = Callable[[], list[Row]]


class Batch:
    """A call that reads blocks, here or in another process; it needs no further arguments."""

    def __init__(self, read: Callable[..., list[Row]], *arguments: object) -> None:
        self._read, self._arguments = read, arguments

    def __call__(self) -> list[Row]:
        return self._read(*self._arguments)


def batches(objects: LocatedObjects, dataset: DatasetId) -> Iterator[Read]:
    """Yield reads of all listed blocks; a block that does not match its hash gives no row."""
    if (local := objects.local_paths) is not None:
        folder = str(local.folder(dataset, ObjectKind.BLOCK))
        names = _names(folder)
        while some := list(islice(names, BATCH)):
            yield Batch(read_files, folder, dataset.key, some)
        return
    found = (
        (info.key.hash.raw, info.size)
        for info in objects.list(dataset)
        if info.key.kind is ObjectKind.BLOCK
    )
    while stored := list(islice(found, BATCH)):
        yield Batch(read_objects, objects, dataset.key, stored)


def _names(folder: str) -> Iterator[str]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if not entry.name.startswith(PENDING_PREFIX):
                yield entry.name


def read_files(folder: str, dataset: bytes, names: Sequence[str]) -> list[Row]:
    """Return the rows of the named files whose name is the hash of their bytes."""
    rows = list[Row]()
    for name in names:
        raw = _content(f"{folder}/{name}")
        if raw is None:
            continue
        actual = Multihash.of(raw)
        if name == str(actual):
            _add_row(rows, dataset, raw, actual)
    return rows


def _content(path: str) -> bytes | None:
    """Return the bytes of a file; None if it is not a readable file or larger than any block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        raw = os.read(handle, FIRST_READ)
        while len(raw) >= FIRST_READ and (more := os.read(handle, len(raw))):
            raw += more
            if len(raw) > MAX_BLOCK_BYTES:
                return None
        return raw
    except OSError:  # a folder, or a disk that fails
        return None
    finally:
        os.close(handle)


def read_objects(objects: Objects, dataset: bytes, batch: Sequence[tuple[bytes, int]]) -> list[Row]:
    """Return the rows of the blocks with these hashes and sizes; skip those with other bytes."""
    rows, owner = list[Row](), DatasetId(dataset)
    for raw_hash, size in batch:
        key = ObjectKey(owner, ObjectKind.BLOCK, Multihash.decode(raw_hash))
        try:
            with objects.open(key) as stream:
                raw = stream.read(min(size, MAX_BLOCK_BYTES))
        except NotFound:  # removed since it was listed
            continue
        actual = Multihash.of(raw)
        if actual == key.hash:
            _add_row(rows, dataset, raw, actual)
    return rows


def _add_row(rows: list[Row], dataset: bytes, raw: bytes, actual: Multihash) -> None:
    try:
        frame = peek_block(raw, actual)
    except BadInput:
        return
    prev = None if frame.prev is None else frame.prev.raw
    rows.append((dataset, actual.raw, frame.sequence_number, prev, frame.event, raw))
