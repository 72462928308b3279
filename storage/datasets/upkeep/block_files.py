"""Rows of the index made of blocks: hashed, only their frames decoded.

Blocks of a folder are read straight from it: millions of small files, where building a path,
asking for a size and buffering a stream would each cost as much as hashing the block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from odf_node.protocol.codec.blocks import peek_block
from odf_node.protocol.errors import BadInput, NotFound
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import Multihash

from ...stores.objects.layout import PENDING_PREFIX
from ...stores.ports import LocatedObjects, Objects
from ...stores.ports.values import ObjectKey, ObjectKind

BATCH = 500
MAX_BLOCK_BYTES = 64 << 20
FIRST_READ = 64 << 10

Row = tuple[bytes, bytes, int, bytes | None, str, bytes]
"""A block as the driver takes it: dataset, hash, sequence number, prev, kind, raw."""
Read = Callable[[], list[Row]]


class Batch:
    """Blocks to be read, here or in another process: made of plain values, called without any."""

    def __init__(self, read: Callable[..., list[Row]], *arguments: object) -> None:
        self._read, self._arguments = read, arguments

    def __call__(self) -> list[Row]:
        return self._read(*self._arguments)


def batches(objects: LocatedObjects, dataset: DatasetId) -> Iterator[Read]:
    """All blocks that are listed; those whose bytes are others give no row."""
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
    """Rows of the files of these names that are blocks under their own hash."""
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
    """None for what is no file, or larger than any block."""
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
    """Rows of the blocks of these hashes and sizes, without those whose bytes are others."""
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
