"""Slices that are older than a column, completed with nulls in that column.

Such a file is made once for a slice and a schema, and kept, since neither ever changes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import pyarrow as pa

from odf_protocol.errors import LimitExceeded, Unavailable
from odf_protocol.multihash import Multihash
from odf_protocol.slice_file import open_slice

from ...stores.ports import KeyedStore
from ...stores.ports.errors import KeyNotFound
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset
from ..read.batches import batches_of
from .fit import in_schema
from .publication import content_hash
from .writer import chunks_of, write_data_file

COMPLETED = "completed"
"""Folder of these files: `completed/<hash of the slice>/<columns>.parquet`."""
PATIENCE_S = 60.0
Batches = Iterator[pa.RecordBatch]
_one_at_a_time = Lock()


class SliceTooLarge(LimitExceeded):
    """A slice has more bytes than the node may rewrite for one request."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"a slice of {size} bytes would have to be written anew for a reader; more than {most} "
            "bytes are not: publish the dataset, or read it in another way",
            limit="gateway_rewrite_bytes",
            value=most,
        )


class CompletingBusy(Unavailable):
    """The wait for files of other requests took too long."""

    def __init__(self) -> None:
        super().__init__("files are being made for other readers; ask again")


def completed_key(slice_hash: Multihash, schema: bytes) -> str:
    """Return the key of the slice completed to the columns of this schema file."""
    return f"{COMPLETED}/{slice_hash}/{content_hash(schema)[:16]}.parquet"


def complete_slice(
    dataset: Dataset,
    slice_hash: Multihash,
    schema: pa.Schema,
    store: KeyedStore,
    key: str,
    *,
    most: int,
) -> None:
    """Make the file under `key` if it is missing. This process makes one file at a time.

    Raises:
        SliceTooLarge: the slice has more than `most` bytes. CompletingBusy.
        ObjectDamaged, ObjectHealing: the slice is not whole.
    """

    def fitted(batches: Batches) -> Batches:
        return (in_schema(batch, schema, {}, key=key) for batch in batches)

    write_anew(dataset, slice_hash, schema, fitted, store, key, most=most)


def write_anew(
    dataset: Dataset,
    slice_hash: Multihash,
    schema: pa.Schema,
    change: Callable[[Batches], Batches],
    store: KeyedStore,
    key: str,
    *,
    most: int,
) -> None:
    """As `complete_slice`, with any `change` of the rows."""
    if _is_there(store, key):
        return
    if not _one_at_a_time.acquire(timeout=PATIENCE_S):
        raise CompletingBusy
    try:
        if not _is_there(store, key):
            _make(dataset, slice_hash, schema, change, store, key, most)
    finally:
        _one_at_a_time.release()


def _make(
    dataset: Dataset,
    slice_hash: Multihash,
    schema: pa.Schema,
    change: Callable[[Batches], Batches],
    store: KeyedStore,
    key: str,
    most: int,
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="complete-") as folder,
        dataset.open_whole(ObjectKind.DATA, slice_hash) as stream,
    ):
        size = stream.seek(0, 2)
        if size > most:
            raise SliceTooLarge(size, most)
        stream.seek(0)
        path = Path(folder) / "slice.parquet"
        batches = batches_of(open_slice(stream), stream)
        write_data_file(path, schema, change(batches))
        store.put(key, chunks_of(path))


def _is_there(store: KeyedStore, key: str) -> bool:
    try:
        store.open(key).close()
    except KeyNotFound:
        return False
    return True
