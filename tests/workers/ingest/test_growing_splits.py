"""Splits that grow in memory: files of a few kilobytes whose values take a thousand times as much.

They count with their values where it is decided who reads them, and a task reads them piece by
piece.
"""

from __future__ import annotations

import gzip
import io
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import bench_without_engine, created, upload
from tests.workers.partitions.many import Many, Told
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import ReadStep
from odf_workers.jobs.ingest import run
from odf_workers.jobs.ingest.run import PreparedPost, prepare_post, push_extras
from odf_workers.partitions import on_spark
from odf_workers.plan.ingest import plan_ingest
from odf_workers.readers.formats.splits import SPLIT_BYTES
from odf_workers.stages.read import read_part

NOW = Instant.parse("2050-01-01T12:00:00Z")
MIB = 1 << 20
TEXT = "x" * 100_000
ROWS = 1_200
VALUES_BYTES = ROWS * len(TEXT)
HELD_BYTES = 96 * MIB
"""The values that a reader makes at once (64 MiB), and half as much again; less than all."""


def parquet_of_one_text() -> bytes:
    """One row group; the text is stored once."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([TEXT]))
    times = pa.array(range(ROWS), pa.timestamp("ms", "UTC"))
    sink = io.BytesIO()
    pq.write_table(pa.table({"event_time": times, "text": texts}), sink, row_group_size=ROWS)
    return sink.getvalue()


def parquet_of_one_time() -> bytes:
    """One row group of numbers that are all equal."""
    rows = VALUES_BYTES // 8
    sink = io.BytesIO()
    table = pa.table({"event_time": pa.array([0] * rows, pa.timestamp("ms", "UTC"))})
    pq.write_table(table, sink, row_group_size=rows)
    return sink.getvalue()


def packed_csv() -> bytes:
    return gzip.compress(f"2020-01-01,{TEXT}\n".encode() * ROWS)


PARQUET = {"kind": "Parquet"}
CSV = {"kind": "Csv", "schema": ["event_time TIMESTAMP", "text STRING"]}
FILES = [
    pytest.param(PARQUET, parquet_of_one_text, id="parquet of a text"),
    pytest.param(PARQUET, parquet_of_one_time, id="parquet of a time"),
    pytest.param(CSV, packed_csv, id="csv in gzip"),
]


def prepared(read: dict[str, Any], body: bytes, folder: Path) -> PreparedPost:
    stores = throwaway_stores()
    dataset = created(stores, read=from_data(read, ReadStep))
    payload = upload(stores, dataset, body)
    path = folder / "body"
    path.write_bytes(body)
    plan = plan_ingest(dataset.state(), payload, now=NOW)
    bench = bench_without_engine(stores, folder)
    return prepare_post(dataset, plan, path, bench, folder, push_extras(plan, payload, 0))


@pytest.mark.parametrize(("read", "make"), FILES)
def test_a_file_counts_with_its_values_and_is_read_piece_by_piece(
    read: dict[str, Any], make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "way_of", lambda *_: Many(2, random.Random(1)))
    body = make()
    assert len(body) < VALUES_BYTES / 900
    post = prepared(read, body, tmp_path)
    assert VALUES_BYTES * 0.99 < post.size < VALUES_BYTES * 1.01
    assert post.size > SPLIT_BYTES
    assert not post.is_task
    assert not post.read.sorts
    before, most, sent = pa.total_allocated_bytes(), 0, 0
    for number, split in enumerate(post.splits.splits):
        told = Told()
        read = on_spark._read(
            on_spark._version(), partial(read_part, (post.read,)), told, number, [(0, (0, split))]
        )
        for content in read:
            most = max(most, pa.total_allocated_bytes() - before)
            sent += len(content)
        (facts,) = told.value[number]
        assert facts.failure is None
    assert sent
    assert most < HELD_BYTES
