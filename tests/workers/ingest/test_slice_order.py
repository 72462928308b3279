"""Rows of a slice are in the order of their strategy, in one partition and in many."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest import run
from odf_workers.partitions.port import Here, Way
from odf_workers.readers.formats import splits

NOW = Instant.parse("2050-01-01T12:00:00Z")
COLUMNS = ("event_time TIMESTAMP", "city STRING")


def ingested(rows: list[dict[str, Any]], way: Way, folder: Path) -> tuple[list[Any], str]:
    """The rows of the slice that a first Snapshot becomes, and the slice's logical hash."""
    folder.mkdir()
    stores = throwaway_stores()
    merge = MergeStrategySnapshot(primary_key=("event_time", "city"))
    dataset = created(stores, read=ReadStepNdJson(ddl_schema=COLUMNS), merge=merge)
    payload = upload(stores, dataset, ndjson(rows))
    receipt = run.run_ingest(dataset, payload, bench_without_engine(stores, folder), now=NOW)
    [made] = receipt.slices
    with dataset.open_object(ObjectKind.DATA, Multihash.parse(made.physical_hash)) as stream:
        table = pq.read_table(stream)
    return table.select(["event_time", "city"]).to_pylist(), made.logical_hash


def test_rows_that_ascend_by_time_are_still_sorted_by_the_rest_of_their_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"event_time": f"2020-01-{1 + number // 4:02}T00:00:00Z", "city": "DCBA"[number % 4]}
        for number in range(40)
    ]
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 300)
    monkeypatch.setattr(splits, "SCAN_BYTES", 64)
    found = []
    for number, way in enumerate((Here(), Many(3, random.Random(1)))):
        monkeypatch.setattr(run, "way_of", lambda *_, way=way: way)
        found.append(ingested(rows, way, tmp_path / str(number)))
    assert [row["city"] for row in found[0][0]] == list("ABCD") * 10
    assert found[1] == found[0]
