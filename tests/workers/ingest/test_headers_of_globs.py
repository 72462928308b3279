"""Files of one pattern whose headers differ, in one partition and in many: columns by name, or by
position with a warning, or nothing of the file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import bench_without_engine, created
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetPollingSource
from odf_protocol.sources.csv_header import HeaderMismatch
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.fetch.values import FetchRules
from odf_workers.jobs.ingest import run
from odf_workers.jobs.sources.poll import run_poll
from odf_workers.jobs.work.context import PollOptions, WorkerContext
from odf_workers.partitions.port import Here
from odf_workers.readers.formats import csv_cuts, splits

NOW = Instant.parse("2050-01-01T12:00:00Z")
COLUMNS = ("event_time", "city", "n")
ROWS = 60


@pytest.fixture(params=["process", "many"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Here | Many:
    found = Here() if request.param == "process" else Many(3, random.Random(1))
    monkeypatch.setattr(run, "way_of", lambda *_: found)
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 300)
    monkeypatch.setattr(splits, "SCAN_BYTES", 64)
    monkeypatch.setattr(csv_cuts, "SCAN_BYTES", 64)
    return found


class Folder:
    """A folder of files, and a dataset that polls them."""

    def __init__(self, path: Path) -> None:
        self.path, stores = path, throwaway_stores()
        manifest = {
            "kind": "SetPollingSource",
            "fetch": {"kind": "FilesGlob", "path": f"{path}/*.csv"},
            "read": {
                "kind": "Csv",
                "header": True,
                "schema": ["event_time TIMESTAMP", "city STRING", "n BIGINT"],
            },
            "merge": {"kind": "Append"},
        }
        source = from_data(manifest, SetPollingSource)
        self.dataset: Dataset = created(stores, source=source)
        fetch = FetchRules(roots=(path,))
        self.bench: WorkerContext = replace(
            bench_without_engine(stores, path), polls=PollOptions(fetch=fetch)
        )

    def write(self, name: str, header: Sequence[str], columns: Sequence[str]) -> None:
        """A file of rows whose values are in the order of `columns`."""
        values = [
            {"event_time": "2020-01-01T00:00Z", "city": f"city {n}", "n": str(n)}
            for n in range(ROWS)
        ]
        lines = [",".join(row[each] for each in columns) for row in values]
        (self.path / name).write_text("\n".join([",".join(header), *lines, ""]))

    def poll(self) -> PollReceipt:
        return run_poll(self.dataset, PollPayload(), self.bench, now=NOW)

    def rows(self) -> list[tuple[str, int]]:
        found = []
        for block in self.dataset.blocks():
            data = block.event.new_data if isinstance(block.event, AddData) else None
            if data is None:
                continue
            with self.dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                table = pq.read_table(stream)
            found += zip(table["city"].to_pylist(), table["n"].to_pylist(), strict=True)
        return found


WHOLE = [(f"city {n}", n) for n in range(ROWS)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_columns_in_another_order_are_taken_by_name(folder: Folder, way: Here | Many) -> None:
    for name, order in (("a.csv", COLUMNS), ("b.csv", ("n", "event_time", "city"))):
        folder.write(name, order, order)
        assert folder.poll().warnings == ()
    assert folder.rows() == WHOLE * 2
    if isinstance(way, Many):
        assert max(way.partitions) > 2, "a file is several splits"


def test_a_renamed_column_is_taken_by_position_and_told(folder: Folder) -> None:
    folder.write("a.csv", COLUMNS, COLUMNS)
    folder.write("b.csv", ("event_time", "town", "n"), COLUMNS)
    assert folder.poll().warnings == ()
    assert folder.poll().warnings == ("columns are taken by position: `town` as `city`",)
    assert folder.rows() == WHOLE * 2


@pytest.mark.parametrize(
    ("header", "columns", "kind", "text"),
    [
        (
            ("event_time", "n", "town"),
            ("event_time", "n", "city"),
            HeaderMismatch,
            "`n` is declared",
        ),
        (("event_time", "city"), ("event_time", "city"), HeaderMismatch, "lacks the column `n`"),
        ((*COLUMNS, "n2"), (*COLUMNS, "n"), HeaderMismatch, "has a new column `n2`"),
    ],
    ids=["swapped and renamed", "missing", "one more"],
)
def test_nothing_is_taken_of_a_file_whose_columns_are_in_doubt(
    header: Sequence[str],
    columns: Sequence[str],
    kind: type[NodeError],
    text: str,
    folder: Folder,
) -> None:
    folder.write("a.csv", COLUMNS, COLUMNS)
    folder.write("b.csv", header, columns)
    folder.poll()
    head = folder.dataset.head()
    with pytest.raises(kind, match=text) as refused:
        folder.poll()
    assert refused.value.facts["line"] == 1
    assert "b.csv" in refused.value.message
    assert folder.dataset.head() == head
    folder.write("b.csv", COLUMNS, COLUMNS)
    folder.poll()
    assert folder.rows() == WHOLE * 2
