"""Cases of time, keys and repeats that others reported, each by its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from refusals import refusing
from tests.workers import datasets
from tests.workers.datasets import bench_without_engine, created, upload
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import load_snapshots
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyUpsertStream, ReadStepCsv
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_workers.jobs.ingest.run import run_ingest

CASES = Path(__file__).parents[1] / "vectors" / "cases"
NOW = Instant.parse("2026-01-01T00:00:00Z")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of the datasets are as old as their posts."""
    monkeypatch.setattr(datasets, "now", lambda: NOW)


class Case:
    """A dataset of a case, to which its files are posted."""

    def __init__(self, name: str, folder: Path, source: Any) -> None:
        self._files, self.stores = CASES / name, throwaway_stores()
        self.dataset = created(self.stores, source=source)
        self._bench = bench_without_engine(self.stores, folder, watermark_ahead_s=86_400)

    def post(self, file: str, **asked: Any) -> IngestReceipt:
        payload = upload(self.stores, self.dataset, (self._files / file).read_bytes())
        return run_ingest(self.dataset, replace(payload, **asked), self._bench, now=NOW)


def source_of(name: str, manifest: str) -> Any:
    (snapshot,) = load_snapshots((CASES / name / manifest).read_bytes())
    return next(e for e in snapshot.metadata if type(e).__name__.endswith("Source"))


def test_case_03_the_receipt_tells_of_a_row_whose_key_a_later_row_has(tmp_path: Path) -> None:
    read = ReadStepCsv(header=True, ddl_schema=("at TIMESTAMP", "v BIGINT"))
    merge = MergeStrategyUpsertStream(primary_key=("at",))
    source = AddPushSource(source_name="default", read=read, merge=merge)
    case = Case("03-publish-key-microseconds", tmp_path, source)
    receipt = case.post("log.csv")
    assert (receipt.rows_read, receipt.rows_added) == (2, 1)
    cut, merged = receipt.warnings
    assert "`at` has times finer than milliseconds" in cut
    assert merged == "1 row had the key of a later row, which took its place: row 1"


def test_case_07_a_row_of_a_wrong_clock_moves_no_watermark(tmp_path: Path) -> None:
    case = Case("07-future-event-time", tmp_path, source_of("07-future-event-time", "in.yaml"))
    assert case.post("1.ndjson").watermark == "2025-01-02T00:00:00Z"
    wrong = case.post("2.ndjson")
    assert (wrong.rows_added, wrong.watermark) == (1, "2025-01-02T00:00:00Z")
    (warning,) = wrong.warnings
    assert warning == (
        "1 row has an event time too far ahead of the clock, up to 2099-01-01T00:00:00Z: it is "
        "stored, and does not move the watermark, which follows event times up to "
        "2026-01-02T00:00:00Z"
    )
    honest = case.post("3.ndjson")
    assert (honest.watermark, honest.warnings) == ("2025-01-11T00:00:00Z", ())


def test_case_07_the_time_of_a_post_is_bounded_as_well(tmp_path: Path) -> None:
    read = ReadStepCsv(header=True, ddl_schema=("id BIGINT", "a STRING"))
    source = replace(source_of("08-first-snapshot-duplicate-key", "snap.yaml"), read=read)
    case = Case("08-first-snapshot-duplicate-key", tmp_path, source)
    receipt = case.post("2.csv", source_event_time="2077-01-01T00:00:00Z")
    assert receipt.watermark is None
    assert "2 rows have event times too far ahead" in receipt.warnings[0]


def test_case_08_the_first_snapshot_has_each_key_once(tmp_path: Path) -> None:
    name = "08-first-snapshot-duplicate-key"
    case = Case(name, tmp_path, source_of(name, "snap.yaml"))
    with refusing("CannotMerge", match=r'row 1 has a key .* more than once: {"id":1}'):
        case.post("1.csv")
    assert case.dataset.state().num_records == 0
    assert case.post("2.csv").rows_added == 2
    with refusing("CannotMerge", match="more than once"):
        case.post("1.csv")
    assert case.post("3.csv").rows_retracted == 1
