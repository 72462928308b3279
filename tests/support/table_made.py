"""A dataset of any columns, to which tables are committed block by block."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from chain_maker import NOON, linked, parquet, slice_of
from upkeep_parts import dataset_of, key_of

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DataSlice,
    Seed,
    SetDataSchema,
)
from odf_protocol.metadata.sources import MergeStrategyUpsertStream, ReadStepNdJson
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, ObjectKind, Visibility

MS = pa.timestamp("ms", "UTC")


ITEMS = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("seen", MS),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("name", pa.string()),
        ("weight", pa.float64()),
        ("open", pa.bool_()),
    ]
)
"""Columns of many types."""


def item(number: int, **more: Any) -> dict[str, Any]:
    """A row of these columns; of every third one some are null."""
    some = number % 3 != 0
    return {
        "id": number,
        "price": Decimal(number) + Decimal("0.25") if some else None,
        "day": datetime.date(2026, 1, 1 + number % 28),
        "seen": datetime.datetime(2026, 1, 1, 0, 0, number % 60, 250_000, datetime.UTC),
        "tags": ["a", None, str(number)] if some else None,
        "place": {"city": f"c{number}", "zip": number if some else None},
        "name": f"näme {number}" if some else None,
        "weight": number / 4,
        "open": some,
        **more,
    }


class TableMade:
    """System columns are added to the rows; each block is a second later than the one
    before, and all rows happened at the same time."""

    def __init__(
        self,
        stores: Stores,
        alias: str,
        columns: pa.Schema,
        *,
        key: Sequence[str] = (),
        visibility: Visibility = Visibility.PRIVATE,
    ) -> None:
        self.stores, self.offset, self.parts = stores, 0, list[DataSlice]()
        self.layout: dict[str, Any] = {}
        """How slices are written: options of Arrow's writer."""
        dataset = key_pair(os.urandom(32)).dataset_id
        self.entry = DatasetEntry(
            dataset, DatasetAlias.parse(alias), DatasetKind.Root, visibility, NOON
        )
        first = linked(None, Seed(dataset_id=dataset, dataset_kind=DatasetKind.Root), at=NOON)
        self.blocks = [first]
        stores.create_dataset(self.entry, self.blocks)
        if key:
            merge = MergeStrategyUpsertStream(primary_key=tuple(key))
            self.commit(AddPushSource(source_name="default", read=ReadStepNdJson(), merge=merge))
        self.declare(columns)

    @property
    def time(self) -> Instant:
        return Instant(NOON.ns + len(self.blocks) * NANOS)

    @property
    def head(self) -> str:
        return str(self.blocks[-1].hash)

    def declare(self, columns: pa.Schema) -> None:
        """The columns of blocks from here on."""
        self.columns = columns
        whole = self._whole(columns.empty_table(), [])
        self.commit(SetDataSchema(schema=from_arrow(whole.schema)))

    def add(self, rows: Sequence[dict[str, Any]], operations: Sequence[int] = ()) -> DataSlice:
        """One block with these rows; they are added unless operations say otherwise."""
        self.commit(self._added(rows, operations))
        return self.parts[-1]

    def add_blocks(self, pieces: Sequence[Sequence[dict[str, Any]]]) -> None:
        """A block for each piece, all by one commit."""
        before = len(self.blocks)
        for rows in pieces:
            self.blocks.append(linked(self.blocks[-1], self._added(rows, ()), at=self.time))
        head = self.blocks[before - 1].hash
        dataset_of(self.stores, self.entry).commit(self.blocks[before:], expected=head)

    def _added(self, rows: Sequence[dict[str, Any]], operations: Sequence[int]) -> AddData:
        """The event of a block with these rows, whose slice is there."""
        table = pa.Table.from_pylist(list(rows), self.columns)
        whole = self._whole(table, operations or [0] * len(rows))
        content = parquet(whole, **self.layout)
        part = slice_of(content, whole, self.offset)
        self.stores.objects.put(key_of(self.entry, ObjectKind.DATA, part.physical_hash), [content])
        event = AddData(prev_offset=self.offset - 1 if self.offset else None, new_data=part)
        self.offset += len(rows)
        self.parts.append(part)
        return event

    def commit(self, event: Any) -> None:
        block = linked(self.blocks[-1], event, at=self.time)
        dataset_of(self.stores, self.entry).commit([block], expected=self.blocks[-1].hash)
        self.blocks.append(block)

    def _whole(self, table: pa.Table, operations: Sequence[int]) -> pa.Table:
        made = pa.array([self.time.millis] * table.num_rows, MS)
        happened = pa.array([NOON.millis] * table.num_rows, MS)
        offsets = pa.array(range(self.offset, self.offset + table.num_rows), pa.int64())
        system = {"offset": offsets, "op": pa.array(operations, pa.int32())}
        system |= {"system_time": made, "event_time": happened}
        names = [*system, *table.column_names]
        return pa.Table.from_arrays([*system.values(), *table.columns], names=names)
