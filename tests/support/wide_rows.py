"""A dataset of many rows, built directly: a slice a block, no worker and no post.

Logical hashes are of nothing, since no query looks at them; all else is as a node would have it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from chain_maker import NOON, add_data, entry, linked, parquet, seed
from upkeep_parts import dataset_of, key_of

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import DataSlice, OffsetInterval, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKind, Visibility

STEP = 7919
"""Keys of neighbours are so far from each other that every slice spans all of them."""
GROUPS = 1000


class WideRows:
    """A public dataset `alias`: offsets, a key that no other row has, a group, an amount."""

    def __init__(self, stores: Stores, alias: str, *, rows: int, slices: int) -> None:
        self.rows, self.entry = rows, entry(alias)
        self.stores = stores
        cuts = np.linspace(0, rows, slices + 1, dtype=np.int64)
        first = linked(None, seed(self.entry.id))
        blocks = [first, linked(first, SetDataSchema(schema=from_arrow(self._table(0, 0).schema)))]
        self.names: list[Multihash] = []
        self.size = 0
        for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            content = parquet(self._table(start, end))
            name = Multihash.of(content)
            stores.objects.put(key_of(self.entry, ObjectKind.DATA, name), [content])
            part = DataSlice(
                logical_hash=Multihash.of(b""),
                physical_hash=name,
                offset_interval=OffsetInterval(start=start, end=end - 1),
                size=len(content),
            )
            blocks.append(linked(blocks[-1], add_data(part, prev=start - 1 if start else None)))
            self.names.append(name)
            self.size += len(content)
        stores.create_dataset(self.entry, blocks)
        stores.set_visibility(self.entry.id, Visibility.PUBLIC)

    @property
    def dataset(self) -> Dataset:
        return dataset_of(self.stores, self.entry)

    @property
    def paths(self) -> list[Path]:
        local = self.stores.objects.local_paths
        assert local is not None
        return [local.path(key_of(self.entry, ObjectKind.DATA, name)) for name in self.names]

    def key(self, row: int) -> int:
        return row * STEP % self.rows

    def _table(self, start: int, end: int) -> pa.Table:
        numbers = np.arange(start, end, dtype=np.int64)
        when = pa.array(np.full(end - start, NOON.millis), pa.timestamp("ms", "UTC"))
        return pa.table(
            {
                "offset": numbers,
                "op": np.zeros(end - start, np.int32),
                "system_time": when,
                "event_time": when,
                "key": numbers * STEP % max(self.rows, 1),
                "grp": numbers * 31 % GROUPS,
                "amount": (numbers % 997).astype(np.float64),
            }
        )
