"""Split the rows of a slice into partitions by the values of partition columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.kartothek.errors import UnsupportedColumn
from odf_protocol.kartothek.keys import partition_folder
from odf_protocol.kartothek.partition_values import text_of
from odf_protocol.kartothek.types import kind_of, normalised

from ..read.rows import Scan
from .chain_slices import ChainSlice

OFFSET = "offset"


class UnusablePartitionValue(BadInput):
    """A row has a value in a partition column that cannot be part of a key."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"partition column {column[:100]!r}: {reason}", column=column[:100])


class PartitionRows:
    """Splits slices. Caches the last split, since the partitions of a slice are consecutive."""

    def __init__(
        self, scan: Scan, schema: pa.Schema, columns: Sequence[str], offset_column: str
    ) -> None:
        self._scan, self._columns, self._offset = scan, tuple(columns), offset_column
        self._types = {name: normalised(schema.field(name).type) for name in columns}
        self._last: tuple[ChainSlice, int, Mapping[str, np.ndarray[Any, Any]]] | None = None

    def split(
        self, each: ChainSlice, offsets: np.ndarray[Any, Any]
    ) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return sorted offsets by folder. Raise `UnusablePartitionValue`."""
        if self._last is not None and self._last[:2] == (each, len(offsets)):
            return self._last[2]
        found = self._read(offsets) if len(offsets) else {}
        self._last = each, len(offsets), found
        return found

    def _read(self, offsets: np.ndarray[Any, Any]) -> Mapping[str, np.ndarray[Any, Any]]:
        wanted = list(dict.fromkeys([*self._columns, self._offset]))
        parts = [self._keyed(batch) for batch in self._scan(wanted, offsets)]
        names = [f"k{at}" for at in range(len(self._columns))]
        whole = pa.concat_tables(parts).combine_chunks()
        groups = whole.group_by(names, use_threads=False).aggregate([(OFFSET, "list")])
        values = [groups[name].to_pylist() for name in names]
        found: dict[str, list[np.ndarray[Any, Any]]] = {}
        for at, some in enumerate(groups[f"{OFFSET}_list"]):
            texts = [
                (column, self._text(column, value[at]))
                for column, value in zip(self._columns, values, strict=True)
            ]
            its = some.values.to_numpy(zero_copy_only=False)
            found.setdefault(partition_folder(texts), []).append(its)
        return {folder: np.sort(np.concatenate(some)) for folder, some in sorted(found.items())}

    def _keyed(self, batch: pa.RecordBatch) -> pa.Table:
        columns = {
            f"k{at}": batch.column(name).cast(self._types[name])
            for at, name in enumerate(self._columns)
        }
        columns[OFFSET] = batch.column(self._offset).cast(pa.int64())
        return pa.table(columns)

    def _text(self, column: str, value: Any) -> str:
        try:
            return text_of(value, kind_of(self._types[column]))
        except UnsupportedColumn as error:
            raise UnusablePartitionValue(column, error.message) from None
