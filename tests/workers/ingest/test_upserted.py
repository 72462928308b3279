"""Rows of an upsert say what happened to them, or the receipt tells that they do not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_workers.jobs.ingest.run import run_ingest

NOW = Instant.parse("2050-01-01T12:00:00Z")
COLUMNS = ("id BIGINT", "name STRING")


def parquet(rows: list[dict[str, Any]]) -> bytes:
    found = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), found)
    return found.getvalue()


def rows_after(read: ReadStep, bodies: list[bytes], tmp_path: Path) -> int:
    """The number of rows of a dataset that got these bodies one after the other."""
    return ingested(read, bodies, tmp_path)[0]


def ingested(
    read: ReadStep, bodies: list[bytes], tmp_path: Path
) -> tuple[int, list[IngestReceipt]]:
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path)
    dataset = created(stores, read=read, merge=MergeStrategyUpsertStream(primary_key=("id",)))
    receipts = [run_ingest(dataset, upload(stores, dataset, b), bench, now=NOW) for b in bodies]
    return dataset.state().num_records, receipts


FIRST = [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}]
GONE = [{"id": 1, "name": "A", "op": 1}]


@pytest.mark.parametrize(
    ("kind", "body"),
    [(ReadStepNdJson, ndjson), (ReadStepParquet, parquet)],
    ids=["json", "parquet"],
)
def test_a_row_that_is_taken_back_is_not_added_where_no_column_hears_of_it(
    kind: Any, body: Any, tmp_path: Path
) -> None:
    with refusing("CannotMerge", match="declare `op` as an optional Int32"):
        rows_after(kind(ddl_schema=COLUMNS), [body(FIRST), body(GONE)], tmp_path)


def test_a_row_that_is_taken_back_is_retracted_where_a_column_hears_of_it(tmp_path: Path) -> None:
    read = ReadStepNdJson(ddl_schema=(*COLUMNS, "op INT"))
    assert rows_after(read, [ndjson(FIRST), ndjson(GONE)], tmp_path) == 3


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ([7, 0], "row 1 has no known operation code: 0 appends"),
        ([3, 2], "row 2 is one half of a correction without the other"),
    ],
)
def test_a_code_that_does_not_say_what_stands_is_an_upsert_and_told(
    codes: list[int], told: str, tmp_path: Path
) -> None:
    """The reference takes every code but that of a retraction as an upsert."""
    read = ReadStepNdJson(ddl_schema=(*COLUMNS, "op INT"))
    rows = [{"id": 1, "name": str(at), "op": code} for at, code in enumerate(codes)]
    taken, receipts = ingested(read, [ndjson(FIRST), ndjson(rows)], tmp_path)
    assert taken == 4
    assert any(told in each for each in receipts[-1].warnings)


def test_rows_without_a_code_and_pairs_of_corrections_are_upserts(tmp_path: Path) -> None:
    read = ReadStepNdJson(ddl_schema=(*COLUMNS, "op INT"))
    pair = [{"id": 1, "name": "A", "op": 2}, {"id": 1, "name": "Z", "op": 3}]
    assert rows_after(read, [ndjson(FIRST), ndjson(pair)], tmp_path) == 4
