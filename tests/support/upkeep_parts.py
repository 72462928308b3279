"""Datasets with real slices for the tests of upkeep, a clock that is ahead, and commands."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from chain_maker import add_data, entry, linked, parquet, seed, slice_of, table
from click.testing import CliRunner, Result

from odf_node.cli.main import main
from odf_protocol.chain.rules import fold
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import DataSlice, HashedBlock, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind

ROWS = 3


class Ahead:
    """The system's clock, so much ahead."""

    def __init__(self, time: timedelta) -> None:
        self._ns = int(time.total_seconds()) * NANOS

    def __call__(self) -> Instant:
        return Instant(system_clock().ns + self._ns)


def odf(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def answer(result: Result) -> dict[str, Any]:
    return dict(json.loads(result.stdout))


TOMORROW = Ahead(timedelta(hours=25))
"""By this clock, everything of today is older than a grace time of a day."""


def key_of(dataset: DatasetEntry, kind: ObjectKind, object_hash: Multihash) -> ObjectKey:
    return ObjectKey(dataset.id, kind, object_hash)


def put_slice(stores: Stores, dataset: DatasetEntry, start: int, *, value: str = "x") -> DataSlice:
    """A slice of three rows that nothing names yet."""
    rows = table(start, ROWS, value=value)
    content = parquet(rows)
    part = slice_of(content, rows, start)
    stores.objects.put(key_of(dataset, ObjectKind.DATA, part.physical_hash), [content])
    return part


def begun(stores: Stores, alias: str = "kamu/foo") -> tuple[DatasetEntry, list[HashedBlock]]:
    """A dataset of a Seed and a schema."""
    made = entry(alias)
    schema = SetDataSchema(schema=from_arrow(table(0, 1).schema))
    first = linked(None, seed(made.id))
    blocks = [first, linked(first, schema)]
    stores.create_dataset(made, blocks)
    return made, blocks


def next_block(blocks: list[HashedBlock], part: DataSlice) -> HashedBlock:
    """A block behind these that adds a slice."""
    return linked(blocks[-1], add_data(part, prev=fold(blocks).last_offset))


def grown(
    stores: Stores, alias: str = "kamu/foo", *, slices: int = 2, value: str = "x"
) -> tuple[DatasetEntry, list[HashedBlock]]:
    """A dataset with so many slices, committed one by one."""
    made, blocks = begun(stores, alias)
    for number in range(slices):
        grow(stores, made, blocks, number * ROWS, value=value)
    return made, blocks


def grow(
    stores: Stores, made: DatasetEntry, blocks: list[HashedBlock], start: int, *, value: str = "x"
) -> DataSlice:
    part = put_slice(stores, made, start, value=value)
    block = next_block(blocks, part)
    dataset_of(stores, made).commit([block], expected=blocks[-1].hash)
    blocks.append(block)
    return part


def longer(
    stores: Stores, made: DatasetEntry, blocks: list[HashedBlock], *, value: str = "x"
) -> DataSlice:
    """As `grow`, behind the slices of a dataset that `begun` or `grown` made."""
    return grow(stores, made, blocks, ROWS * (len(blocks) - 2), value=value)


def dataset_of(stores: Stores, made: DatasetEntry) -> Dataset:
    return stores.dataset(DatasetRef(id=made.id))
