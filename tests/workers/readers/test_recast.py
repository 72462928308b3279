"""Typed columns take the types of a schema: digits may go, values may not change otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_protocol.metadata.sources import ReadStepParquet
from odf_workers.readers.formats.parquet import read_parquet
from odf_workers.readers.values.recast import can_recast, recast
from odf_workers.readers.values.text import BadValue
from odf_workers.slices.schema import BadInputSchema, BadRow, Limits

MS, US, NS = (pa.timestamp(unit, "UTC") for unit in ("ms", "us", "ns"))
NOON = datetime(2020, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
CUT = NOON.replace(microsecond=123_000)
INTS = pa.list_(pa.int64())
POINT = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])


@pytest.mark.parametrize(
    ("found", "value", "wanted", "becomes"),
    [
        (pa.int64(), 5, pa.string(), "5"),
        (pa.int64(), 5, pa.int8(), 5),
        (pa.int64(), 2**53 + 1, pa.float64(), float(2**53)),
        (pa.int64(), 5, pa.decimal128(8, 2), Decimal("5.00")),
        (pa.uint64(), 2**64 - 1, pa.decimal128(20, 0), Decimal(2**64 - 1)),
        (pa.int32(), 1500, MS, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        (pa.int64(), 1, pa.date32(), date(1970, 1, 2)),
        (pa.date32(), date(1970, 1, 2), pa.int64(), 1),
        (pa.float64(), 1.9, pa.int64(), 1),
        (pa.float64(), -1.9, pa.int8(), -1),
        (pa.float64(), 1.0, pa.string(), "1.0"),
        (INTS, [1, 2], pa.string(), "[1,2]"),
        (POINT, {"x": 1, "y": "a"}, pa.string(), '{"x":1,"y":"a"}'),
        (pa.float32(), 0.1, pa.string(), "0.1"),
        (pa.float64(), 1e300, pa.string(), "1e300"),
        (pa.float64(), 1e-7, pa.string(), "1e-7"),
        (pa.float64(), float("nan"), pa.string(), "NaN"),
        (pa.float64(), float("-inf"), pa.string(), "-inf"),
        (pa.bool_(), True, pa.string(), "true"),
        (pa.decimal128(10, 3), Decimal("-1.555"), pa.decimal128(10, 2), Decimal("-1.56")),
        (pa.decimal128(10, 3), Decimal("1.555"), pa.decimal128(12, 5), Decimal("1.55500")),
        (pa.decimal128(10, 3), Decimal("1.999"), pa.int32(), 1),
        (US, NOON, MS, CUT),
        (NS, NOON, MS, CUT),
        (MS, CUT, NS, CUT),
        (pa.timestamp("us"), NOON.replace(tzinfo=None), MS, CUT),
        (US, NOON, pa.date32(), date(2020, 1, 1)),
        (US, NOON, pa.string(), "2020-01-01T12:00:00.123456Z"),
        (MS, CUT, pa.string(), "2020-01-01T12:00:00.123Z"),
        (NS, CUT, pa.string(), "2020-01-01T12:00:00.123Z"),
        (
            pa.timestamp("ms"),
            NOON.replace(microsecond=0, tzinfo=None),
            pa.string(),
            "2020-01-01T12:00:00",
        ),
        (
            pa.timestamp("ms", "Europe/Vienna"),
            NOON.replace(microsecond=0),
            pa.string(),
            "2020-01-01T12:00:00Z",
        ),
        (pa.time32("ms"), time(1, 2, 3), pa.string(), "01:02:03"),
        (pa.string(), " 12", pa.int64(), 12),
        (pa.large_string(), "1.559", pa.decimal128(8, 2), Decimal("1.55")),
        (pa.string(), "2020-01-01T12:00:00.123456+00:00", MS, CUT),
        (pa.string(), "TRUE", pa.bool_(), True),
        (pa.string(), "", pa.string_view(), ""),
        (INTS, [1, None], pa.list_(pa.string()), ["1", None]),
        (INTS, [], pa.large_list(pa.float64()), []),
        (pa.list_(US), [NOON], pa.list_(MS), [CUT]),
        (
            POINT,
            {"x": 1, "y": "2"},
            pa.struct([("y", pa.int8()), ("z", pa.bool_())]),
            {"y": 2, "z": None},
        ),
        (pa.null(), None, POINT, None),
    ],
    ids=str,
)
def test_a_value_becomes_one_of_the_other_type(
    found: pa.DataType, value: Any, wanted: pa.DataType, becomes: Any
) -> None:
    for column in (pa.array([value], found), pa.array([None, value, None], found).slice(1, 1)):
        result = recast(column, wanted)
        assert (result.type, result.to_pylist()) == (wanted, [becomes])
        result.validate(full=True)
    assert recast(pa.array([None, value], found), wanted).to_pylist() == [None, becomes]


@pytest.mark.parametrize(
    ("found", "value", "wanted"),
    [
        (pa.int64(), 300, pa.int8()),
        (pa.int64(), -1, pa.uint64()),
        (pa.int64(), 10**7, pa.decimal128(8, 2)),
        (pa.float64(), float("nan"), pa.int64()),
        (pa.float64(), 1e300, pa.int64()),
        (pa.decimal128(10, 3), Decimal("1234567.000"), pa.decimal128(8, 2)),
        (pa.timestamp("s", "UTC"), datetime(9999, 1, 1, tzinfo=UTC), NS),
        (pa.string(), "x", pa.int64()),
        (pa.string(), "", pa.int64()),
        (pa.string(), "9" * 39, pa.decimal128(38, 0)),
        (pa.binary(), b"\xff", pa.string()),
        (pa.list_(pa.string()), ["1", "2", "x"], INTS),
        (INTS, [None], pa.list_(pa.field("item", pa.int64(), nullable=False))),
    ],
    ids=str,
)
def test_the_first_value_that_does_not_fit_is_named(
    found: pa.DataType, value: Any, wanted: pa.DataType
) -> None:
    with pytest.raises(BadValue) as refused:
        recast(pa.array([None, value, value], found), wanted)
    assert refused.value.index == 1


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (INTS, pa.int64()),
        (pa.int64(), INTS),
        (POINT, pa.struct([pa.field("z", pa.bool_(), nullable=False)])),
        (pa.bool_(), MS),
        (pa.float64(), MS),
        (pa.map_(pa.string(), pa.int64()), POINT),
    ],
    ids=str,
)
def test_some_types_have_nothing_in_common(found: pa.DataType, wanted: pa.DataType) -> None:
    assert not can_recast(found, wanted)
    assert can_recast(pa.int8(), pa.string())


def test_the_parquet_reader_names_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "input"
    pq.write_table(pa.table({"b": ["1", "2"], "a": ["x", None]}), path)
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    frame = read_parquet(ReadStepParquet(), path, schema, Limits())
    assert frame is not None
    assert frame.table().to_pylist() == [{"a": "x", "b": 1}, {"a": None, "b": 2}]
    frame = read_parquet(ReadStepParquet(), path, pa.schema([("a", pa.int64())]), Limits())
    assert frame is not None
    with pytest.raises(BadRow, match=r"column `a`: row 1 .* Int64: 'x'"):
        frame.table()


def test_types_with_nothing_in_common_are_refused_before_a_row_is_read(tmp_path: Path) -> None:
    path = tmp_path / "input"
    pq.write_table(pa.table({"a": pa.array([], INTS)}), path)
    with pytest.raises(BadInputSchema, match="`a` is list"):
        read_parquet(ReadStepParquet(), path, pa.schema([("a", pa.int64())]), Limits())
