"""The distinct values of columns in slices: read from the rows once, and then kept.

Indices are made from them. They are kept under the hash of the slice, which never changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.kartothek.index import plain_values
from odf_protocol.kartothek.keys import encoded
from odf_protocol.kartothek.types import normalised
from odf_protocol.multihash import Multihash
from odf_protocol.slice_file import UNREADABLE, UnreadableSlice, open_slice

from ...runtime.logs import line
from ...stores.ports import KeyedStore
from ...stores.ports.errors import KeyNotFound
from ..read.batches import batches_of
from ..read.rows import Scan
from .parts import Part, Split

SLICES = "slices"
"""Folder of the kept files: `slices/<hash of the slice>/<column>.parquet`."""
VALUE = "value"
_log = logging.getLogger("odf.kartothek")


def encode_values(values: pa.Array) -> bytes:
    """Return the bytes of a file with the values of a column in a slice."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({VALUE: values}), sink, compression="snappy", version="2.6")
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


class SliceValues:
    """Files of distinct values in an internal keyed store of the node."""

    def __init__(self, store: KeyedStore) -> None:
        self._store = store

    def find(self, slice_hash: Multihash, column: str, wanted: pa.DataType) -> pa.Array | None:
        """Return the kept values; None if there are none, or the file cannot be used."""
        key = _key(slice_hash, column)
        try:
            with self._store.open(key) as stream:
                file = open_slice(stream)
                if file.schema_arrow.names != [VALUE]:
                    raise UnreadableSlice(f"its columns are {file.schema_arrow.names[:5]}")
                batches = [batch.column(0).cast(wanted) for batch in batches_of(file, stream)]
        except KeyNotFound:
            return None
        except (UnreadableSlice, *UNREADABLE) as error:
            if isinstance(error, MemoryError):
                raise
            _log.warning(line("kept values not used", key=key, reason=str(error)[:200]))
            return None
        return pa.chunked_array(batches, wanted).combine_chunks()

    def put(self, slice_hash: Multihash, column: str, raw: bytes) -> None:
        """Keep the values; `raw` is the result of `encode_values`."""
        self._store.put(_key(slice_hash, column), (raw,))

    def has(self, slice_hash: Multihash) -> frozenset[str]:
        """Return the encoded names of columns whose values are kept."""
        found = self._store.list(f"{SLICES}/{slice_hash}")
        return frozenset(info.key.rsplit("/", 1)[1].removesuffix(".parquet") for info in found)


class Columns:
    """Distinct values of columns of partitions, kept ones or read from the rows."""

    def __init__(
        self, scan: Scan, schema: pa.Schema, kept: SliceValues | None, split: Split | None = None
    ) -> None:
        self.scan, self.schema, self._kept, self.split = scan, schema, kept, split

    def offsets_of(self, part: Part) -> np.ndarray[Any, Any]:
        """Return the offsets of the rows of a partition."""
        if self.split is None or part.source is None:
            return part.offsets
        return self.split(part.source, part.offsets)[part.folder]

    def values_of(self, part: Part, columns: Sequence[str]) -> Mapping[str, pa.Array]:
        """Return the distinct values of these columns in a partition, without null and NaN."""
        types = {name: normalised(self.schema.field(name).type) for name in columns}
        if part.source is None:
            return {name: pa.array([], types[name]) for name in columns}
        if self._kept is None or not part.is_all:
            return self._scanned(part, types)
        its = part.source.data.physical_hash
        known = {name: self._kept.find(its, name, types[name]) for name in columns}
        found = {name: values for name, values in known.items() if values is not None}
        missing = {name: types[name] for name in columns if name not in found}
        if missing:
            for name, values in self._scanned(part, missing).items():
                self._kept.put(its, name, encode_values(values))
                found[name] = values
        return found

    def _scanned(self, part: Part, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
        return distinct(self.scan(list(types), self.offsets_of(part)), types)


def distinct(
    batches: Iterator[pa.RecordBatch], types: Mapping[str, pa.DataType]
) -> dict[str, pa.Array]:
    """Return the distinct values of columns in these rows."""
    values = {name: [pa.array([], wanted)] for name, wanted in types.items()}
    for batch in batches:
        for name in types:
            values[name].append(plain_values(batch.column(name)))
    return {
        name: pc.unique(pa.chunked_array(some).combine_chunks()) for name, some in values.items()
    }


def _key(slice_hash: Multihash, column: str) -> str:
    return f"{SLICES}/{slice_hash}/{encoded(column)}.parquet"
