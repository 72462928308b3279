"""Columns of every type that is stored can be merged, nested ones as well."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.run import run_ingest

NOW = Instant.parse("2050-01-01T12:00:00Z")
BIG = {"kind": "Decimal", "precision": 50, "scale": 2}
COLUMNS: dict[str, tuple[Any, Any, Any]] = {
    "time": ("Time", "01:02:03", "01:02:04"),
    "micros": ({"kind": "Time", "unit": "Microsecond"}, "01:02:03", "01:02:03.000001"),
    "half": ("Float16", 1.5, 2.5),
    "whole": ("UInt64", 1, 2**64 - 1),
    "big": (BIG, "9.00", "10.00"),
    "pair": ({"kind": "List", "itemType": "Int64", "fixedLength": 2}, [1, 2], [2, 1]),
    "two": ({"kind": "Binary", "fixedLength": 2}, "0a0b", "0a0c"),
    "names": ({"kind": "List", "itemType": "String"}, ["a"], []),
}


def read_step(key: Any = "Int64") -> ReadStep:
    kinds = {"k": key, **{name: kind for name, (kind, _, _) in COLUMNS.items()}}
    fields = [{"name": k, "type": {"kind": "Option", "inner": kind}} for k, kind in kinds.items()]
    step: ReadStep = from_data({"kind": "NdJson", "schema": {"fields": fields}}, ReadStep)
    return step


def row(key: int, at: int | None) -> dict[str, Any]:
    values = {name: None if at is None else each[1 + at] for name, each in COLUMNS.items()}
    return {"k": key, **values}


@pytest.mark.parametrize(
    "merge",
    [MergeStrategySnapshot(primary_key=("k",)), MergeStrategyUpsertStream(primary_key=("k",))],
    ids=["snapshot", "upsert"],
)
def test_values_of_all_types_are_compared_and_kept(merge: MergeStrategy, tmp_path: Path) -> None:
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path)
    dataset = created(stores, read=read_step(), merge=merge)
    for rows in ([row(1, 0), row(2, 1), row(3, None)], [row(1, 1), row(2, 1), row(3, 0)]):
        payload = upload(stores, dataset, ndjson(rows))
        receipt = run_ingest(dataset, payload, bench, now=NOW)
    assert (receipt.rows_corrected, receipt.rows_known) == (2, 1)
    event = dataset.blocks()[-1].event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    with dataset.open_object(ObjectKind.DATA, event.new_data.physical_hash) as stream:
        found = [list(each.values())[4:] for each in pq.read_table(stream).to_pylist()]
    first, second = found[0], found[1]
    assert [one == other for one, other in zip(first, second, strict=True)] == [True] + [
        False
    ] * len(COLUMNS)
    assert found[2:] == [[3, *[None] * len(COLUMNS)], [3, *first[1:]]]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (BIG, ["-9.00", "9.00", "10.00"]),
        ("Float64", [-1.5, 9.0, 10.0]),
        ({"kind": "List", "itemType": "Int64"}, [[], [9], [9, 0]]),
        ({"kind": "Struct", "fields": [{"name": "a", "type": "String"}]}, [{"a": ""}, {"a": "b"}]),
    ],
    ids=["big", "float", "list", "struct"],
)
def test_keys_of_all_types_are_found_again_and_have_an_order(
    kind: Any, keys: list[Any], tmp_path: Path
) -> None:
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path)
    merge = MergeStrategyUpsertStream(primary_key=("k",))
    dataset = created(stores, read=read_step(kind), merge=merge)
    batches = [[row(key, at) for key in reversed([None, *keys])] for at in (0, 1)]
    for batch in batches:
        receipt = run_ingest(dataset, upload(stores, dataset, ndjson(batch)), bench, now=NOW)
        assert receipt.rows_added in (0, len(batch))
    assert receipt.rows_corrected == len(batch)
    event = dataset.blocks()[-1].event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    with dataset.open_object(ObjectKind.DATA, event.new_data.physical_hash) as stream:
        found = pq.read_table(stream).column("k").to_pylist()
    wanted = [Decimal(key) for key in keys] if kind is BIG else keys
    assert found[::2] == found[1::2] == [None, *wanted]
