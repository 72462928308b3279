"""Rows of slices that a view of a dataset does not show: computed once for a block, and kept.

The projections of `read` say which rows a view shows; this module has the other rows, by slice,
as bitmaps for table formats. The file of a block and a view never changes.

Slices with retractions, as feeds of changes need them: each row names its kind of change.

Such a file is the slice with one more column. It is made once and kept, since a slice never
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from odf_protocol.columns.slice_file import UNREADABLE, UnreadableSlice, open_slice
from odf_protocol.delta.vectors import portable
from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash

from ...stores.keyed.folder import Below
from ...stores.ports import KeyedStore
from ...stores.ports.errors import KeyNotFound
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset
from ..kartothek.rows import write_anew
from .versions import version_files

DEAD_ROWS_BYTES = 64 << 20
"""Most bytes that tell rows taken back of one shared table."""

DEAD = "dead"
KEPT_BLOCKS = 16
"""Number of files that are kept, the newest; others are made again when they are requested."""

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class Bitmap(NamedTuple):
    """Positions of rows of a slice as a bitmap, and their number."""

    portable: bytes
    cardinality: int


DeadRows = Mapping[str, Bitmap]
"""Bitmaps by hash of the slice; a slice with all its rows has none."""


class Missing:
    """Collects the offsets of slices that are missing among the living rows. Memory holds the
    bitmaps and the offsets of one slice."""

    def __init__(self, slices: Sequence[DataSlice], most: int) -> None:
        """`most` is the limit of the bytes of all bitmaps."""
        self._slices, self._at, self._most, self._size = slices, 0, most, 0
        self._living: list[Offsets] = []
        self._found: dict[str, Bitmap] = {}

    def add(self, living: Offsets) -> None:
        """Add offsets that the view shows, ascending. Raise `TooManyDeadRows`."""
        while len(living) and self._at < len(self._slices):
            end = self._slices[self._at].offset_interval.end
            here = int(np.searchsorted(living, end, side="right"))
            self._living.append(living[:here])
            living = living[here:]
            if len(living):
                self._close()

    def found(self) -> DeadRows:
        """Return the bitmaps of all slices. Raise `TooManyDeadRows`."""
        while self._at < len(self._slices):
            self._close()
        return self._found

    def _close(self) -> None:
        data = self._slices[self._at]
        start, end = data.offset_interval.start, data.offset_interval.end
        is_dead = np.ones(end - start + 1, np.bool_)
        for living in self._living:
            is_dead[living[living >= start] - start] = False
        positions = np.flatnonzero(is_dead).astype(np.int64)
        if len(positions):
            bitmap = Bitmap(portable(positions), len(positions))
            self._size += len(bitmap.portable)
            if self._size > self._most:
                raise LimitExceeded(
                    "TooManyDeadRows",
                    f"rows that were taken back need more than {self._most} bytes of bitmaps; "
                    "compact the dataset, or read its changelog",
                    limit=self._most,
                )
            self._found[str(data.physical_hash)] = bitmap
        self._at, self._living = self._at + 1, []


class DeadRowFiles:
    """The files of dead rows of one dataset, among its projections."""

    def __init__(self, projections: KeyedStore, dataset: DatasetId, most: int) -> None:
        """`most` is the limit of the bytes of the bitmaps in one file."""
        self._store = version_files(projections, dataset)
        self._most = most

    def read(self, block: Multihash, view: str) -> DeadRows | None:
        """Return the dead rows; None if they were not computed yet."""
        content = self._store.read(_key(block, view), most=2 * self._most + (1 << 20))
        if content is None:
            return None
        kept: dict[str, list[Any]] = msgspec.msgpack.decode(content.raw)
        return {name: Bitmap(*each) for name, each in kept.items()}

    def write(self, block: Multihash, view: str, dead: DeadRows) -> None:
        """Write the file, and delete all but the `KEPT_BLOCKS` newest files."""
        self._store.put(_key(block, view), [msgspec.msgpack.encode(dead)])
        files = sorted(self._store.list(DEAD), key=lambda info: info.modified.ns, reverse=True)
        self._store.delete([info.key for info in files[KEPT_BLOCKS:]])


def _key(block: Multihash, view: str) -> str:
    return f"{DEAD}/{block}.{view}"


CHANGE_TYPE = "_change_type"
KINDS = ("insert", "delete", "update_preimage", "update_postimage")
"""Names of the operation codes 0 to 3."""
_CHANGES = "changes"


def changed_rows_key(slice_hash: Multihash) -> str:
    return f"{_CHANGES}/{slice_hash}.parquet"


def write_changed_rows(
    store: Below, dataset: Dataset, slice_hash: Multihash, operation: str, *, most: int
) -> int:
    """Make the file in the `version_files` of the dataset if it is missing; return its size in
    bytes. `operation` is the column of operation codes.

    Raises:
        UnreadableSlice: an operation has another code. Also the errors of `write_anew`.
    """
    key = changed_rows_key(slice_hash)
    known = _size(store, key)
    if known is not None:
        return known
    with dataset.open_whole(ObjectKind.DATA, slice_hash) as stream:
        schema = open_slice(stream).schema_arrow.append(pa.field(CHANGE_TYPE, pa.string()))

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = pa.array(KINDS)
        for batch in batches:
            try:
                kind = kinds.take(batch.column(operation).cast(pa.int64()))
            except (*UNREADABLE, KeyError) as error:
                raise UnreadableSlice.of(error) from None
            yield pa.RecordBatch.from_arrays([*batch.columns, kind], schema=schema)

    write_anew(dataset, slice_hash, schema, told, store, key, most=most)
    return _size(store, key) or 0


def _size(store: Below, key: str) -> int | None:
    try:
        with store.open(key) as file:
            return file.seek(0, 2)
    except KeyNotFound:
        return None
