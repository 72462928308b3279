"""Columns of Parquet files mean what their writers meant, also where Arrow takes them for bytes or
for other times."""

from __future__ import annotations

import io
import json
import uuid
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_protocol.metadata.sources import ReadStepParquet
from odf_workers.readers.formats.parquet import read_parquet
from odf_workers.readers.values.features import Known
from odf_workers.slices.schema import BadInputSchema, BadRow, Frame, Limits

SPARK = "org.apache.spark."


def opened(path: Path, schema: pa.Schema | None = None, **more: Any) -> Frame:
    frame = read_parquet(ReadStepParquet(), path, schema, Limits(), **more)
    assert frame is not None
    return frame


def written(folder: Path, table: pa.Table, **options: Any) -> Path:
    path = folder / "input.parquet"
    pq.write_table(table, path, **options)
    return path


# --- old times ----------------------------------------------------------------------------------

FAR = [
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
    datetime(1, 1, 1),
    datetime(2020, 1, 1, 12),
    None,
]


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_times_of_96_bits_have_all_years(tmp_path: Path, use_dictionary: bool) -> None:
    """Spark writes them by default; 64 bits of nanoseconds end in 2262."""
    table = pa.table({"t": pa.array(FAR, pa.timestamp("us"))})
    path = written(tmp_path, table, use_deprecated_int96_timestamps=True, store_schema=False)
    spoiled = path.read_bytes()
    assert pq.ParquetFile(io.BytesIO(spoiled)).schema.column(0).physical_type == "INT96"
    read = opened(path).table()["t"]
    assert read.type.tz == "UTC"  # as Spark writes them: moments
    assert read.cast(pa.timestamp("us")).to_pylist() == FAR
    declared = pa.schema([pa.field("t", pa.timestamp("ms", "UTC"))])
    frame = opened(path, declared)
    found = frame.table()["t"].to_pylist()
    assert found[1:3] == [datetime(1, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 12, tzinfo=UTC)]
    assert found[0].year == 9999
    assert "times lose their last digits" in frame.warnings[0]


def legacy(days: list[int | None], **more: str) -> pa.Table:
    keys = {SPARK + name: value for name, value in more.items()}
    schema = pa.schema([pa.field("d", pa.date32())], metadata=keys)
    return pa.table([pa.array(days, pa.int32()).cast(pa.date32())], schema=schema)


@pytest.mark.parametrize(
    "key", [{"legacyDateTime": ""}, {"version": "2.4.8"}], ids=["marked", "of an old Spark"]
)
def test_days_of_the_old_calendar_keep_their_year_month_and_day(
    tmp_path: Path, key: dict[str, str]
) -> None:
    """As Spark reads them. The numbers are those that Spark writes for these dates."""
    table = legacy([-719_164, -171_655, -141_428, -141_427, 0, None], **key)
    found = opened(written(tmp_path, table)).table()["d"].to_pylist()
    assert found == [
        date(1, 1, 1),
        date(1500, 1, 1),
        date(1582, 10, 4),
        date(1582, 10, 15),
        date(1970, 1, 1),
        None,
    ]


def test_days_of_the_new_calendar_stay(tmp_path: Path) -> None:
    table = legacy([-719_162, -171_655], version="4.3.0")
    found = opened(written(tmp_path, table)).table()["d"].to_pylist()
    assert found == [date(1, 1, 1), date(1500, 1, 10)]


@pytest.mark.parametrize(
    ("zone", "when", "good"),
    [
        ("UTC", datetime(1800, 1, 1), True),
        ("Europe/Berlin", datetime(1800, 1, 1), False),
        ("UTC", datetime(1500, 1, 1), False),
        ("Europe/Berlin", datetime(1950, 1, 1), True),
    ],
)
def test_times_that_may_be_shifted_are_refused(
    tmp_path: Path, zone: str, when: datetime, good: bool
) -> None:
    keys = {SPARK + "legacyDateTime": "", SPARK + "timeZone": zone}
    schema = pa.schema([pa.field("t", pa.timestamp("us", "UTC"))], metadata=keys)
    times = pa.array([datetime(2020, 1, 1), when], pa.timestamp("us", "UTC"))
    path = written(tmp_path, pa.table([times], schema=schema))
    if good:
        assert opened(path).table()["t"].to_pylist()[1] == when.replace(tzinfo=UTC)
        return
    with pytest.raises(BadRow, match="column `t`: row 2: a time in the old calendar"):
        opened(path).table()


# --- types ----------------------------------------------------------------------------------------

IDS = [uuid.UUID(int=5), None, uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")]


@pytest.mark.parametrize("store_schema", [True, False])
def test_a_uuid_is_a_text(tmp_path: Path, store_schema: bool) -> None:
    raw = [None if each is None else each.bytes for each in IDS]
    path = written(tmp_path, pa.table({"u": pa.array(raw, pa.uuid())}), store_schema=store_schema)
    column = opened(path).table()["u"]
    assert column.type == pa.string()
    assert column.to_pylist() == [None if each is None else str(each) for each in IDS]
    as_bytes = pa.schema([pa.field("u", pa.binary(16))])
    assert opened(path, as_bytes).table()["u"].to_pylist() == raw
    known = Known({"u": pa.field("u", pa.binary(16))}, "event_time")
    assert opened(path, known=known).table()["u"].to_pylist() == raw


def test_an_enum_is_a_text(tmp_path: Path) -> None:
    """Avro and Thrift write such columns; the footer of a text column is changed to one."""
    values = pa.array(["red", None, "green"])
    path = written(tmp_path, pa.table({"e": values}), store_schema=False)
    types = b"\x18\x01e%%%c\x4c%c\x00\x00\x00"
    """The name of the column in the footer, its converted and its logical type."""
    content = path.read_bytes().replace(types % (0x00, 0x1C), types % (0x08, 0x4C))
    path.write_bytes(content)
    assert str(pq.ParquetFile(path).schema.column(0).logical_type) == "Enum"
    assert pq.read_table(path)["e"].type == pa.binary()
    assert opened(path).table()["e"].to_pylist() == ["red", None, "green"]


def test_an_interval_is_a_text(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "interval.parquet"
    duckdb.sql(f"copy (select interval '14 months 3 days 1.5 seconds' as i) to '{path}'")
    assert opened(path).table()["i"].to_pylist() == ["P14M3DT1.500S"]


def test_a_variant_is_refused_with_its_column(tmp_path: Path) -> None:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    path = written(tmp_path, pa.table({"v": pa.array([{"metadata": b"1", "value": b"2"}], kind)}))
    with pytest.raises(BadInputSchema, match="`v` is a VARIANT"):
        opened(path)


def test_the_bare_form_of_an_unknown_type_is_said(tmp_path: Path) -> None:
    path = tmp_path / "periods.parquet"
    months = pd.period_range("2020-01", periods=2, freq="M")
    pd.DataFrame({"p": months}).to_parquet(path)
    frame = opened(path)
    assert frame.table()["p"].to_pylist() == [600, 601]
    assert "`p` has the type pandas.period" in frame.warnings[0]


# --- the index of pandas --------------------------------------------------------------------------


def indexed(folder: Path, index: Any, rows: int, **options: Any) -> Path:
    """A file as pandas 3 writes it: an index of evenly spaced numbers is in the footer alone."""
    path = folder / "pandas.parquet"
    frame = pd.DataFrame({"x": np.arange(rows, dtype="f8")}, index=index)
    pq.write_table(pa.Table.from_pandas(frame), path, **options)
    return path


@pytest.mark.parametrize(("start", "step"), [(10, 10), (0, 1), (5, -2)])
def test_an_index_that_only_the_footer_has_is_a_column(
    tmp_path: Path, start: int, step: int
) -> None:
    rows = 25
    index = pd.RangeIndex(start, start + rows * step, step, name="id")
    path = indexed(tmp_path, index, rows, row_group_size=7)
    frame = opened(path)
    found = frame.table()
    assert found.column_names == ["x", "id"]
    assert found["id"].to_pylist() == list(index)
    assert frame.warnings == []
    later = opened(path, groups=[1, 2], before=7).table()
    assert later["id"].to_pylist() == list(index)[7:21]


def test_an_index_that_is_no_column_of_the_dataset_is_said(tmp_path: Path) -> None:
    path = indexed(tmp_path, pd.RangeIndex(10, 40, 10, name="id"), 3)
    known = Known({"x": pa.field("x", pa.float64())}, "event_time")
    frame = opened(path, known=known)
    assert frame.table().column_names == ["x"]
    assert "the index `id` of pandas" in frame.warnings[0]
    known = Known({**known.fields, "id": pa.field("id", pa.int64())}, "event_time")
    assert opened(path, known=known).table()["id"].to_pylist() == [10, 20, 30]
    declared = pa.schema([pa.field("x", pa.float64()), pa.field("id", pa.int32())])
    assert opened(path, declared).table()["id"].to_pylist() == [10, 20, 30]


def test_an_index_without_a_name_is_said_unless_it_counts_the_rows(tmp_path: Path) -> None:
    assert opened(indexed(tmp_path, pd.RangeIndex(3), 3)).warnings == []
    frame = opened(indexed(tmp_path, pd.RangeIndex(3, 6), 3))
    assert frame.table().column_names == ["x"]
    assert "the index of pandas (3, 4, …) has no name" in frame.warnings[0]


def test_other_indices_are_columns_of_the_file(tmp_path: Path) -> None:
    levels = pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["n", "city"])
    found = opened(indexed(tmp_path, levels, 2)).table()
    assert found.column_names == ["x", "n", "city"]


@pytest.mark.parametrize(
    "said",
    [
        b"{",
        b"[]",
        b"null",
        b'{"index_columns": 5}',
        b'{"index_columns": [{"kind": "range", "name": 5, "start": "a"}]}',
        json.dumps({"index_columns": [{"kind": "range", "name": "x", "start": 1, "step": 1}]}),
    ],
)
def test_a_footer_that_is_not_of_pandas_changes_nothing(tmp_path: Path, said: Any) -> None:
    schema = pa.schema([pa.field("x", pa.int64())], metadata={b"pandas": said})
    table = opened(written(tmp_path, pa.table([[1, 2]], schema=schema))).table()
    assert table.to_pydict() == {"x": [1, 2]}
