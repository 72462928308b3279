"""A key that has almost all rows of a long history: what stands of it is found at once, in one
partition and in many."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, upload
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepParquet,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest import run
from odf_workers.partitions.port import Here
from odf_workers.stages import pipeline

NOW = Instant.parse("2050-01-01T12:00:00Z")
MILLIS = pa.timestamp("ms", "UTC")
ROWS = 1_000_001
LAST = ROWS - 1
STATE_BYTES = 1 << 20
KEY = ("k",)
A, R, C, D = range(4)
CASES: list[tuple[MergeStrategy, list[tuple[int, int, int]], list[tuple[int, int, int]]]] = [
    (MergeStrategyLedger(primary_key=KEY), [(A, 7, -1), (A, 8, -1)], [(A, 8, -1)]),
    (MergeStrategySnapshot(primary_key=KEY), [(A, 7, -1)], [(C, 7, LAST), (D, 7, -1)]),
    (
        MergeStrategyChangelogStream(primary_key=KEY),
        [(R, 7, LAST), (A, 7, -1)],
        [(R, 7, LAST), (A, 7, -1)],
    ),
]
"""A strategy, a second batch of operation, key and value, and the rows that come of it."""


@pytest.fixture(params=["process", "many"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Here() if request.param == "process" else Many(3, random.Random(1))
    if isinstance(found, Many):
        found.partition_bytes = 8 << 20
    monkeypatch.setattr(run, "way_of", lambda *_: found)
    monkeypatch.setattr(pipeline, "SMALLEST_PARTITION_BYTES", 1)


def table(merge: MergeStrategy, ops: Any, keys: Any, values: Any, times: Any = None) -> bytes:
    columns = {
        "event_time": pa.array([None] * len(values) if times is None else times, MILLIS),
        "k": pa.array(keys, pa.int64()),
        "v": pa.array(values, pa.int64()),
    }
    if isinstance(merge, MergeStrategyChangelogStream):
        columns = {"op": pa.array(ops, pa.int32()), **columns}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=300_000)
    return sink.getvalue()


def long_history(merge: MergeStrategy) -> bytes:
    """One key; a changelog takes back each row but the last by the next one."""
    ops, values = None, np.arange(ROWS)
    if isinstance(merge, MergeStrategyChangelogStream):
        ops, values = values % 2, values - values % 2
    return table(merge, ops, np.full(ROWS, 7), values, times=values)


def rows_of(dataset: Dataset, receipt: IngestReceipt) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for each in receipt.slices:
        with dataset.open_object(ObjectKind.DATA, Multihash.parse(each.physical_hash)) as stream:
            rows = pq.read_table(stream, columns=["op", "k", "v"])
        found += zip(*(rows[name].to_pylist() for name in ("op", "k", "v")), strict=True)
    return found


@pytest.mark.parametrize(
    ("merge", "batch", "wanted"), CASES, ids=["ledger", "snapshot", "changelog"]
)
def test_the_last_row_of_a_million_of_one_key_is_the_one_that_counts(
    merge: MergeStrategy,
    batch: list[tuple[int, int, int]],
    wanted: list[tuple[int, int, int]],
    tmp_path: Path,
) -> None:
    stores = throwaway_stores()
    first = MergeStrategyAppend() if isinstance(merge, MergeStrategySnapshot) else merge
    again = AddPushSource(source_name="again", read=ReadStepParquet(), merge=merge)
    dataset = created(stores, read=ReadStepParquet(), merge=first, more=(again,))
    bench = bench_without_engine(stores, tmp_path)
    payload = upload(stores, dataset, long_history(merge))
    payload = msgspec.structs.replace(payload, source_name="default")
    assert run.run_ingest(dataset, payload, bench, now=NOW).rows_read == ROWS
    if isinstance(merge, MergeStrategyChangelogStream):
        wrong = upload(stores, dataset, table(merge, [R], [7], [LAST - 2]))
        wrong = msgspec.structs.replace(wrong, source_name="again")
        with refusing("NotWhatStands", match="is another one in `v`"):
            run.run_ingest(dataset, wrong, bench, now=NOW)
    payload = upload(stores, dataset, table(merge, *zip(*batch, strict=True)))
    payload = msgspec.structs.replace(payload, source_name="again")
    receipt = run.run_ingest(dataset, payload, bench, now=NOW)
    assert rows_of(dataset, receipt) == wanted
    kept = sum(path.stat().st_size for path in (tmp_path / "merge-state").rglob("*"))
    assert kept < STATE_BYTES, "the state keeps a key once, not each row of it"
