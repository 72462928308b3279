"""A dataset of a node that is published: rows in blocks, a folder of objects, a keyed store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from chain_maker import NOON, add_data, entry, linked, parquet, seed, slice_of
from upkeep_parts import dataset_of, key_of

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import AddData, DataSlice, HashedBlock, SetDataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.kartothek.definition import Publication, Published
from odf_storage.datasets.kartothek.publish import publish
from odf_storage.datasets.kartothek.records import KeyedRecords
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.values import ObjectKind

MS = pa.timestamp("ms", "UTC")
A, R, C, D = range(4)
"""+A, -R, -C, +C."""
A2 = (
    [(A, "a", 1000), (A, "b", 2000), (A, "c", None)],
    [(C, "b", 2000), (D, "b", 2500), (A, "d", 7)],
    [(R, "a", 1000)],
)
"""The blocks of the acceptance example, as (operation, city, pop)."""


class Growing:
    """A dataset to which blocks of (operation, city, pop) are committed."""

    def __init__(self, stores: Stores, alias: str = "kamu/towns") -> None:
        self.stores, self.entry = stores, entry(alias)
        self.offset = 0
        self.parts: list[DataSlice] = []
        first = linked(None, seed(self.entry.id))
        schema = SetDataSchema(schema=from_arrow(self.table([]).schema))
        self.blocks: list[HashedBlock] = [first, linked(first, schema)]
        stores.create_dataset(self.entry, self.blocks)

    @property
    def dataset(self) -> Dataset:
        return dataset_of(self.stores, self.entry)

    @property
    def head(self) -> str:
        return str(self.blocks[-1].hash)

    def table(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        when = pa.array([NOON.millis] * len(rows), MS)
        return pa.table(
            {
                "offset": pa.array(range(self.offset, self.offset + len(rows)), pa.int64()),
                "op": pa.array([row[0] for row in rows], pa.int32()),
                "system_time": when,
                "event_time": when,
                "city": pa.array([row[1] for row in rows], pa.string()),
                "pop": pa.array([row[2] for row in rows], pa.int64()),
            }
        )

    def add(self, rows: Sequence[tuple[Any, ...]]) -> DataSlice:
        """One block with these rows."""
        table = self.table(rows)
        content = parquet(table)
        part = slice_of(content, table, self.offset)
        key = key_of(self.entry, ObjectKind.DATA, part.physical_hash)
        self.stores.objects.put(key, [content])
        self.commit(add_data(part, prev=self.offset - 1 if self.offset else None))
        self.offset += len(rows)
        self.parts.append(part)
        return part

    def commit(self, event: Any) -> None:
        block = linked(self.blocks[-1], event)
        self.dataset.commit([block], expected=self.blocks[-1].hash)
        self.blocks.append(block)

    def slice_path(self, part: DataSlice) -> Path:
        paths = self.stores.objects.local_paths
        assert paths is not None
        return paths.path(key_of(self.entry, ObjectKind.DATA, part.physical_hash))


def extend(made: Growing) -> None:
    """A column more, and a block that has it."""
    wider = made.table([(A, "w", 1)]).append_column("mayor", pa.array(["Ada"]))
    made.commit(SetDataSchema(schema=from_arrow(wider.schema)))
    content = parquet(wider)
    part = slice_of(content, wider, made.offset)
    key = key_of(made.entry, ObjectKind.DATA, part.physical_hash)
    made.stores.objects.put(key, [content])
    made.commit(AddData(prev_offset=made.offset - 1, new_data=part))


class Publisher:
    """Publishes again and again, by a clock that the test moves. Every run reads its record."""

    def __init__(self, made: Growing, store: KeyedStore, folder: Path, **config: Any) -> None:
        self.made, self.store = made, store
        self.config = Publication(uuid="u", **config)
        self.record_store = FolderKeyedStore(folder, durable=False)
        self.now = NOON

    @property
    def records(self) -> KeyedRecords:
        return KeyedRecords(self.record_store, "record.json")

    def __call__(self, *, store: KeyedStore | None = None, force: bool = False) -> Published:
        self.now = Instant(self.now.ns + NANOS)
        return publish(
            self.made.dataset,
            store or self.store,
            self.config,
            self.records,
            clock=lambda: self.now,
            force=force,
            kept=self.record_store,
        )

    def later(self, hours: int) -> None:
        self.now = Instant(self.now.ns + hours * 3600 * NANOS)


class Killed(BaseException):
    """The process that publishes ends here."""


class Watched:
    """A keyed store that counts calls, and may end the process before one that changes it."""

    def __init__(self, store: KeyedStore, *, dies_at: int | None = None) -> None:
        self._store, self._left = store, dies_at
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: Any, **more: Any) -> Any:
            self.calls.append((name, str(args[0])))
            if self._left is not None and name in ("put", "link", "swap", "delete"):
                self._left -= 1
                if self._left < 0:
                    raise Killed
            return method(*args, **more)

        return call

    def names(self, *names: str) -> list[str]:
        """Keys of calls of these names, in order."""
        return [key for name, key in self.calls if name in names]


def by_city(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Offset, operation, city, pop; by offset."""
    return sorted((row["offset"], row["op"], row["city"], row["pop"]) for row in rows)
