"""Files that need options of their source are read alike in one piece and cut into splits."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import bench_without_engine, created
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetPollingSource
from odf_storage.datasets.job_payloads.poll_job import PollPayload
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.fetch.values import FetchRules
from odf_workers.jobs.ingest import run
from odf_workers.jobs.sources.poll import run_poll
from odf_workers.jobs.work.context import PollOptions
from odf_workers.partitions.port import Here
from odf_workers.readers.formats import csv_cuts, splits
from odf_workers.slices.schema import BadRow

NOW = Instant.parse("2026-01-01T00:00:00Z")
FIELDS = [
    {"name": "event_time", "type": "Timestamp"},
    {"name": "land", "type": "String"},
    {
        "name": "wert",
        "type": {"kind": "Option", "inner": "Float64"},
        "extra": {"odf-node/nullWords": ["k. A."]},
    },
]
SCHEMA = {
    "fields": FIELDS,
    "extra": {
        "odf-node/skipLines": 2,
        "odf-node/unitLines": 1,
        "odf-node/footerLines": 2,
        "odf-node/repeatedHeader": "skip",
        "odf-node/decimal": ",",
        "odf-node/thousands": ".",
        "odf-node/timeZone": "Europe/Berlin",
    },
}
ROWS = 200


@pytest.fixture(params=["in one piece", "cut"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Here | Many:
    found = Here() if request.param == "in one piece" else Many(8, random.Random(1))
    monkeypatch.setattr(run, "way_of", lambda *_: found)
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 300)
    monkeypatch.setattr(splits, "SCAN_BYTES", 64)
    monkeypatch.setattr(csv_cuts, "SCAN_BYTES", 64)
    return found


def text(bad: str | None = None) -> str:
    lines = ["Übersicht", "", "event_time;land;wert", "MEZ;;EUR"]
    for at in range(ROWS):
        value = "k. A." if at % 7 == 0 else f"1.{at:03},5"
        lines.append(
            f"2025-01-01 {at // 60:02}:{at % 60:02};NA {at};{bad if at == 150 and bad else value}"
        )
        if at % 50 == 49:
            lines.append("event_time;land;wert")
    return "\r\n".join([*lines, "Summe;;1", "Quelle: é", ""])


def polled(folder: Path, content: bytes) -> tuple[Any, pa.Table]:
    (folder / "a.csv").write_bytes(content)
    manifest = {
        "kind": "SetPollingSource",
        "fetch": {"kind": "FilesGlob", "path": f"{folder}/*.csv"},
        "read": {
            "kind": "Csv",
            "header": True,
            "separator": ";",
            "encoding": "utf-16",
            "schema": SCHEMA,
        },
        "merge": {"kind": "Append"},
    }
    stores = throwaway_stores()
    dataset = created(stores, source=from_data(manifest, SetPollingSource))
    bench = bench_without_engine(stores, folder)
    bench = replace(bench, polls=PollOptions(fetch=FetchRules(roots=(folder,))))
    receipt = run_poll(dataset, PollPayload(), bench, now=NOW)
    slices = [each.event.new_data for each in dataset.blocks() if isinstance(each.event, AddData)]
    (data,) = [each for each in slices if each is not None]
    with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
        return receipt, pq.read_table(stream)


def test_a_file_that_needs_all_options_becomes_the_same_rows(
    tmp_path: Path, way: Here | Many
) -> None:
    receipt, table = polled(tmp_path, text().encode("utf-16"))
    repeats, footer = receipt.warnings
    assert repeats.startswith("4 lines repeat the header and are no rows: 55, 106, 157, 208")
    assert "have as many fields as a row; the first begins with 'Summe;;1'" in footer
    wanted = [None if at % 7 == 0 else 1000 + at + 0.5 for at in range(ROWS)]
    assert table["wert"].to_pylist() == wanted
    assert table["land"].to_pylist() == [f"NA {at}" for at in range(ROWS)]
    assert str(table["event_time"][0]) == "2024-12-31 23:00:00+00:00"
    if isinstance(way, Many):
        assert max(way.partitions) > 2, "the file is several splits"


def test_an_error_names_the_line_of_the_original_however_it_is_read(
    tmp_path: Path, way: Here | Many
) -> None:
    with pytest.raises(BadRow, match=r"line 158, column `wert`: .*1\.000 or 1000,5"):
        polled(tmp_path, text(bad="1,2,3").encode("utf-16"))
