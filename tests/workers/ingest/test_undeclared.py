"""Sources that declare no schema: after the first batch they are read by that of the dataset."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers import datasets
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeOption, DataTypeString
from odf_protocol.metadata.sources import ReadStep, ReadStepCsv, ReadStepNdJson, ReadStepParquet
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest import run
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.partitions.port import Here, Way
from odf_workers.readers.formats import splits
from odf_workers.slices.schema import IncompatibleSchema

NOW = Instant.parse("2050-01-01T12:00:00Z")
CSV, NDJSON, JSON, PARQUET = (
    "text/csv",
    "application/x-ndjson",
    "application/json",
    "application/vnd.apache.parquet",
)


@pytest.fixture
def stores() -> Iterator[Stores]:
    return throwaway_stores()


class Posting:
    """A dataset of one source, and what its posts came to."""

    def __init__(self, stores: Stores, folder: Path, read: ReadStep) -> None:
        self.stores, self.dataset = stores, created(stores, read=read)
        self.bench = bench_without_engine(stores, folder)

    def post(self, body: bytes | pa.Table, media_type: str | None = None) -> IngestReceipt:
        if isinstance(body, pa.Table):
            sink = io.BytesIO()
            pq.write_table(body, sink)
            body = sink.getvalue()
        payload = upload(self.stores, self.dataset, body)
        asked = msgspec.structs.replace(payload, media_type=media_type)
        return run_ingest(self.dataset, asked, self.bench, now=NOW)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        found = [row for table in slices(self.dataset) for row in table.to_pylist()]
        return [tuple(row[name] for name in columns) for row in found]


def slices(dataset: Dataset) -> Iterator[pa.Table]:
    for block in dataset.blocks():
        data = getattr(block.event, "new_data", None)
        if data is not None:
            with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                yield pq.read_table(stream)


@pytest.fixture
def posting(stores: Stores, tmp_path: Path) -> Any:
    return lambda read: Posting(stores, tmp_path, read)


def test_columns_may_come_in_another_order(posting: Any) -> None:
    on = posting(ReadStepCsv(header=True))
    on.post(b"city,name\nA,Anna\n")
    on.post(b"name,city\nBert,B\n")
    assert on.rows("city", "name") == [("A", "Anna"), ("B", "Bert")]


def test_whole_numbers_may_come_where_fractions_stand(posting: Any) -> None:
    on = posting(ReadStepNdJson())
    on.post(b'{"share": 1.5}\n')
    on.post(b'{"share": 2}\n')
    on.post(b"share\n3\n", CSV)
    assert on.rows("share") == [(1.5,), (2.0,), (3.0,)]


def test_a_fraction_is_not_cut_to_a_whole_number_that_nobody_declared(posting: Any) -> None:
    on = posting(ReadStepNdJson())
    on.post(b'{"n": 1}\n')
    for body in (b'{"n": 1.5}\n', b'{"n": 1}\n' * 1_200 + b'{"n": 1.5}\n'):
        with pytest.raises(BadInput, match="`n`"):
            on.post(body)
    assert on.dataset.state().last_offset == 0


def test_a_number_that_nobody_declared_does_not_become_a_time(posting: Any) -> None:
    on = posting(ReadStepCsv(header=True, infer_schema=True))
    on.post(b"seen\n2020-01-01T00:00:00Z\n")
    with pytest.raises(IncompatibleSchema, match="`seen` is int64"):
        on.post(b'{"seen": 1577836800}\n', NDJSON)


def test_csv_goes_on_where_parquet_began(posting: Any) -> None:
    on = posting(ReadStepParquet())
    first = pa.table(
        {
            "code": pa.array(["007"]),
            "n": pa.array([1], pa.int32()),
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "day": pa.array([date(2020, 1, 1)]),
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "event_time": pa.array([0], pa.timestamp("ms", "UTC")),
        }
    )
    on.post(first)
    on.post(
        b"event_time,day,price,n,code,at\n"
        b"2020-01-02T00:00:00Z,2020-01-02,2.5,2,008,2020-01-01T10:00:00Z\n",
        CSV,
    )
    when = datetime(2020, 1, 1, 10, tzinfo=UTC)
    second = ("008", 2, Decimal("2.50"), date(2020, 1, 2), when)
    assert on.rows("code", "n", "price", "day", "at")[1] == second


def test_json_goes_on_where_csv_began(posting: Any) -> None:
    on = posting(ReadStepCsv(header=True, infer_schema=True))
    on.post(b"zip,event_time,n,day\nA1,2020-01-01T00:00:00Z,1,2020-01-01\n")
    on.post(b'[{"day": "2020-01-02", "n": 2, "zip": "B2", "event_time": "2020-01-02"}]', JSON)
    assert on.rows("zip", "n", "day")[1] == ("B2", 2, date(2020, 1, 2))


def test_text_that_looks_like_numbers_stays_text(posting: Any) -> None:
    on = posting(ReadStepCsv(header=True, infer_schema=True))
    on.post(b"code\nA1\n")
    on.post(b"code\n007\n")
    assert on.rows("code") == [("A1",), ("007",)]


def test_an_optional_field_may_be_missing_and_the_publisher_is_told(posting: Any) -> None:
    on = posting(ReadStepNdJson())
    on.post(b'{"n": 1, "city": "A"}\n')
    told = on.post(b'{"n": 2}\n')
    assert on.rows("n", "city") == [(1, "A"), (2, None)]
    assert told.warnings == ("columns that no record names are null: `city`",)


def test_a_date_is_the_day_where_event_times_are_kept_as_days(posting: Any) -> None:
    on = posting(ReadStepCsv(header=True, infer_schema=True))
    on.post(b"event_time,n\n2020-01-01,1\n")
    on.post(b'{"event_time": "2020-01-02", "n": 2}\n', NDJSON)
    assert on.rows("event_time") == [(date(2020, 1, 1),), (date(2020, 1, 2),)]


def test_seconds_stay_event_times_where_nobody_declared_them(posting: Any) -> None:
    on = posting(ReadStepNdJson())
    for body in (b'{"event_time": 5, "n": 1}\n', b'{"event_time": "1970-01-01", "n": 2}\n'):
        on.post(body)
    assert [when.second for (when,) in on.rows("event_time")] == [5, 0]


def test_columns_named_as_the_nodes_own_go_on_under_their_other_name(posting: Any) -> None:
    on = posting(ReadStepNdJson())
    on.post(b'{"offset": 1.5, "n": 1}\n')
    on.post(b'{"n": 2, "offset": 2}\n')
    assert on.rows("_offset", "n") == [(1.5, 1), (2.0, 2)]


def test_lines_in_splits_give_the_receipt_that_they_give_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their columns are in another order than the dataset's, and some records lack one."""
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 3000)
    monkeypatch.setattr(splits, "SCAN_BYTES", 128)
    monkeypatch.setattr(datasets, "now", lambda: NOW)
    rows = [{"a": "x", "b": n} if n < 100 else {"b": n} for n in range(1200)]
    rows[1100]["c"] = 1
    many = Many(4, random.Random(1))
    ways: tuple[Way, Way] = (Here(), many)
    receipts = []
    for number, way in enumerate(ways):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.setattr(run, "way_of", lambda *_, way=way: way)
        posting = Posting(throwaway_stores(), folder, ReadStepNdJson())
        posting.post(b'{"b": 1}\n{"a": "x", "b": 2}\n')
        receipt = posting.post(ndjson(rows))
        receipts.append(msgspec.structs.replace(receipt, ran=None))
        assert len(receipt.warnings) == 1, "of the column of one late record"
    assert max(many.partitions) > 2
    assert receipts[0] == receipts[1]


def test_a_bad_line_at_the_beginning_of_lines_in_splits_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 1000)
    monkeypatch.setattr(splits, "SCAN_BYTES", 128)
    many = Many(4, random.Random(1))
    monkeypatch.setattr(run, "way_of", lambda *_: many)
    posting = Posting(throwaway_stores(), tmp_path, ReadStepNdJson())
    lines = b'{"n": 1}\n7\n' + ndjson([{"n": n} for n in range(400)])
    payload = upload(posting.stores, posting.dataset, lines)
    asked = msgspec.structs.replace(payload, on_bad_rows="quarantine")
    receipt = run_ingest(posting.dataset, asked, posting.bench, now=NOW)
    assert max(many.partitions) > 2
    assert (receipt.rows_added, receipt.rows_rejected) == (401, 1)


def test_the_name_of_the_only_column_is_no_row(stores: Stores, tmp_path: Path) -> None:
    kind = DataTypeOption(inner=DataTypeString())
    read = ReadStepParquet(schema=DataSchema(fields=(DataField(name="v", type=kind),)))
    posting = Posting(stores, tmp_path, read)
    posting.post(pa.table({"v": ["X"]}), PARQUET)
    with pytest.raises(BadInput, match="the first line names the columns"):
        posting.post(b"v\nX\n", CSV)
    posting.post(b"V\nX\n", CSV)  # a text like others
    assert posting.rows("v") == [("X",), ("V",), ("X",)]
