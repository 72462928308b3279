"""Slices with retractions, as feeds of changes need them: each row names its kind of change.

Such a file is the slice with one more column. It is made once and kept, since a slice never
changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from odf_protocol.multihash import Multihash
from odf_protocol.slice_file import UNREADABLE, UnreadableSlice, open_slice

from ...stores.keyed.below import Below
from ...stores.ports.errors import KeyNotFound
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset
from ..kartothek.completed import write_anew

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
