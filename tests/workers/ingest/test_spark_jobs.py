"""How many jobs of Spark a batch takes: none if it is small, one where all run there, and a few if
it is large."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.datasets import bench_without_engine, created, upload
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_storage.datasets.job_payloads.ingest_job import RanReceipt
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.partitions.on_spark import OnSpark
from odf_workers.readers.formats import splits
from odf_workers.stages import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = Instant.parse("2050-01-01T12:00:00Z")
DEFAULT_BYTES = 8 << 20
STRATEGIES: dict[str, MergeStrategy] = {
    "append": MergeStrategyAppend(),
    "ledger": MergeStrategyLedger(primary_key=("n",)),
    "snapshot": MergeStrategySnapshot(primary_key=("n",)),
    "changelog": MergeStrategyChangelogStream(primary_key=("n",)),
    "upsert": MergeStrategyUpsertStream(primary_key=("n",)),
}


def body(strategy: MergeStrategy, start: int, count: int) -> bytes:
    op = isinstance(strategy, MergeStrategyChangelogStream)
    head, code = ("op,", "0,") if op else ("", "")
    rows = [f"{code}2020-01-01T00:00:00Z,{n},text of {n}\n" for n in range(start, start + count)]
    return f"{head}event_time,n,text\n{''.join(rows)}".encode()


def read(strategy: MergeStrategy) -> ReadStep:
    op = ["op INT"] if isinstance(strategy, MergeStrategyChangelogStream) else []
    columns = [*op, "event_time TIMESTAMP", "n BIGINT", "text STRING"]
    step: ReadStep = from_data({"kind": "Csv", "header": True, "schema": columns}, ReadStep)
    return step


def jobs_of(strategy: MergeStrategy, count: int, folder: Path, micro: int, spark: Any) -> Any:
    """Where two batches in a row ran, and in how many jobs each."""
    return [(each.way, each.spark_jobs) for each in ran(strategy, count, folder, micro, spark)]


def ran(
    strategy: MergeStrategy, count: int, folder: Path, micro: int, spark: Any
) -> list[RanReceipt]:
    """What the receipts of two batches in a row say of where they ran."""
    stores = throwaway_stores()
    bench = bench_without_engine(stores, folder, micro_batch_bytes=micro)
    bench = replace(bench, engines=replace(bench.engines, session=spark))
    dataset = created(stores, read=read(strategy), merge=strategy)
    found = []
    for start in (0, count):
        payload = upload(stores, dataset, body(strategy, start, count))
        receipt = run_ingest(dataset, payload, bench, now=NOW)
        assert receipt.ran is not None
        assert receipt.rows_added == count
        found.append(receipt.ran)
    return found


SMALL = [
    (name, count)
    for name in STRATEGIES
    for count in (1, 1_000, 100_000)
    if (name, count) != ("snapshot", 100_000)  # which counts its history: see below
]


@pytest.mark.parametrize(("name", "count"), SMALL)
def test_a_small_batch_takes_no_spark_by_default(name: str, count: int, tmp_path: Path) -> None:
    assert jobs_of(STRATEGIES[name], count, tmp_path, DEFAULT_BYTES, None) == [("process", 0)] * 2


@pytest.mark.spark
def test_a_snapshot_counts_its_history(tmp_path: Path, spark: SparkSession) -> None:
    strategy = STRATEGIES["snapshot"]
    assert len(body(strategy, 0, 100_000)) < DEFAULT_BYTES
    ran = jobs_of(strategy, 100_000, tmp_path, DEFAULT_BYTES, spark)
    assert ran[0] == ("process", 0)
    assert ran[1][0] == "spark"
    assert ran[1][1] >= 3, "it is read, merged and written"


@pytest.mark.spark
@pytest.mark.parametrize("count", [1, 1_000])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_small_batch_is_one_job_where_none_may_run_in_the_process(
    name: str, count: int, tmp_path: Path, spark: SparkSession
) -> None:
    assert jobs_of(STRATEGIES[name], count, tmp_path, 0, spark) == [("spark", 1)] * 2


@pytest.fixture
def one_core(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Spark with a single partition at a time."""
    from odf_workers.partitions.on_spark import OnSpark

    monkeypatch.setattr(OnSpark, "width", 1)
    monkeypatch.setattr(OnSpark, "partition_bytes", 1 << 20)
    return spark


@pytest.mark.spark
@pytest.mark.parametrize("name", ["append", "ledger"])
def test_a_small_batch_is_one_job_on_one_core(
    name: str, tmp_path: Path, one_core: SparkSession
) -> None:
    assert jobs_of(STRATEGIES[name], 1_000, tmp_path, 0, one_core) == [("spark", 1)] * 2


@pytest.mark.spark
def test_a_large_merge_is_several_partitions_on_one_core(
    tmp_path: Path, one_core: SparkSession
) -> None:
    for each in ran(STRATEGIES["upsert"], 120_000, tmp_path, 0, one_core):
        assert each.tasks > 5, "more than a task for each stage"


# Reading and writing are a job each. So is merging, where rows of the batch meet each other: in all
# but appends and ledgers.
SORTED_BY_WRITERS = {
    "append": (2, 2),
    "ledger": (2, 2),
    "snapshot": (3, 3),
    "changelog": (3, 3),
    "upsert": (3, 3),
}
# Sorting is another job where the writer of a slice has no memory for all its rows. The rows of
# appends and ledgers come in order here.
SORTED_BEFORE = {
    "append": (2, 2),
    "ledger": (2, 2),
    "snapshot": (4, 4),
    "changelog": (4, 4),
    "upsert": (4, 4),
}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("jobs", "memory"), [(SORTED_BY_WRITERS, 1 << 20), (SORTED_BEFORE, 10_000)]
)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_large_batch_is_a_job_for_each_stage(
    name: str,
    jobs: dict[str, tuple[int, int]],
    memory: int,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "SMALLEST_PARTITION_BYTES", 1)
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 4_000)
    monkeypatch.setattr(OnSpark, "partition_bytes", memory)
    ran = jobs_of(STRATEGIES[name], 1_000, tmp_path, 0, spark)
    assert ran == [("spark", each) for each in jobs[name]]


@pytest.mark.spark
def test_a_large_batch_runs_on_spark_in_several_tasks_by_default(
    tmp_path: Path, spark: SparkSession
) -> None:
    strategy = MergeStrategyAppend()
    count = 250_000
    assert len(body(strategy, 0, count)) > DEFAULT_BYTES
    (way, jobs), _ = jobs_of(strategy, count, tmp_path, DEFAULT_BYTES, spark)
    assert (way, jobs) == ("spark", 2)
