"""A dataset has one watermark, whichever of its sources rows come from."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_workers.jobs.ingest.run import run_ingest

NOW = Instant.parse("2050-01-01T00:00:00Z")
SCHEMA = ("event_time TIMESTAMP", "n BIGINT")


def _source(name: str) -> AddPushSource:
    read = ReadStepNdJson(ddl_schema=SCHEMA)
    return AddPushSource(source_name=name, read=read, merge=MergeStrategyAppend())


def test_a_source_that_lags_moves_no_watermark_and_its_rows_are_taken(tmp_path: Path) -> None:
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path)
    dataset = created(stores, source=_source("quick"), more=(_source("slow"),))
    told = []
    for n, (source, time) in enumerate(
        [
            ("quick", "2020-01-02T00:00:00Z"),
            ("slow", "2020-01-01T00:00:00Z"),
            ("slow", "2020-01-03T00:00:00Z"),
            ("quick", "2020-01-02T12:00:00Z"),
        ]
    ):
        batch = upload(stores, dataset, ndjson([{"event_time": time, "n": n}]))
        asked = msgspec.structs.replace(batch, source_name=source)
        receipt = run_ingest(dataset, asked, bench, now=NOW)
        told.append((receipt.rows_added, receipt.watermark))
    assert told == [
        (1, "2020-01-02T00:00:00Z"),
        (1, "2020-01-02T00:00:00Z"),
        (1, "2020-01-03T00:00:00Z"),
        (1, "2020-01-03T00:00:00Z"),
    ]
