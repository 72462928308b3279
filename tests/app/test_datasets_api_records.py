"""Records as JSON values: one way to write each type, and schemas of every type in every format."""

from __future__ import annotations

import json
import os
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_node.service.datasets.schema_formats import SchemaFormat, written
from odf_protocol.columns.arrow_schema import from_arrow
from odf_storage.datasets.read import formats as csv_cells
from odf_storage.datasets.read.records import DataFormat, shaped, values

MILLI = 2_524_651_200_000
COLUMNS = [
    (pa.array([2**63 - 1, None]), [2**63 - 1, None]),
    (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
    (pa.array([0.5, float("nan"), float("inf"), None]), [0.5, None, None, None]),
    (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), ["1.50", None]),
    (pa.array([Decimal("0E-10")], pa.decimal128(20, 10)), ["0.0000000000"]),
    (pa.array([0.1, 16777216.0], pa.float32()), [0.1, 16777216.0]),
    (pa.array([0.0999755859375], pa.float16()), [0.099975586]),
    (pa.array([Decimal("-0.01")], pa.decimal256(60, 2)), ["-0.01"]),
    (pa.array(["é", None]), ["é", None]),
    (pa.array(["x"], pa.large_string()), ["x"]),
    (pa.array(["x"], pa.string_view()), ["x"]),
    (pa.array([b"\x00\xff", None]), ["00ff", None]),
    (pa.array([b"ab"], pa.binary(2)), ["6162"]),
    (pa.array([b"ab"], pa.binary_view()), ["6162"]),
    (pa.array([True, None]), [True, None]),
    (pa.array([MILLI, None], pa.timestamp("ms", "UTC")), ["2050-01-01T12:00:00Z", None]),
    (pa.array([MILLI + 1], pa.timestamp("ms", "UTC")), ["2050-01-01T12:00:00.001Z"]),
    (pa.array([1], pa.timestamp("ns", "UTC")), ["1970-01-01T00:00:00.000000001Z"]),
    (pa.array([MILLI // 1000], pa.timestamp("s")), ["2050-01-01T12:00:00"]),
    (pa.array([MILLI + 500], pa.timestamp("ms", "UTC")), ["2050-01-01T12:00:00.500Z"]),
    (pa.array([MILLI], pa.timestamp("ms", "Asia/Kolkata")), ["2050-01-01T17:30:00+05:30"]),
    (pa.array([MILLI], pa.timestamp("ms", "-03:30")), ["2050-01-01T08:30:00-03:30"]),
    (pa.array([253_402_300_800], pa.timestamp("s", "UTC")), ["+10000-01-01T00:00:00Z"]),
    (pa.array([-82_135_596_801], pa.timestamp("s", "UTC")), ["-0633-03-24T12:26:39Z"]),
    (pa.array([2**62], pa.timestamp("s", "UTC")), [str(2**62 * 10**9)]),
    (pa.array([0, None], pa.date32()), ["1970-01-01", None]),
    (pa.array([-719_162, 2_932_896], pa.date32()), ["0001-01-01", "9999-12-31"]),
    (pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()), [f"{2**31 - 1}", f"-{2**31}"]),
    (pa.array([86_400_000, 2**62], pa.date64()), ["1970-01-02T00:00:00", f"{2**62 // 86_400_000}"]),
    (pa.array([3_661_001], pa.time32("ms")), ["01:01:01.001"]),
    (pa.array([3_661_500], pa.time32("ms")), ["01:01:01.500"]),
    (pa.array([1], pa.time64("ns")), ["00:00:00.000000001"]),
    (pa.array([-1500, None], pa.duration("ms")), ["-PT1.5S", None]),
    (pa.nulls(2), [None, None]),
    (pa.array([[1, None], None, []], pa.list_(pa.int32())), [[1, None], None, []]),
    (pa.array([[b"a"]], pa.list_(pa.binary())), [["61"]]),
    (pa.array([{"a": 1, "b": b"x"}, None]), [{"a": 1, "b": "78"}, None]),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), [[{"key": "k", "value": 1}]]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
]


@pytest.mark.parametrize(("column", "expected"), COLUMNS, ids=lambda part: str(part)[:20])
def test_a_column_is_written_in_the_one_way_of_its_type(column, expected):
    for form in (column, pa.chunked_array([column]), pa.chunked_array([column, column])):
        found = values(form)
        assert found == expected * (len(found) // len(expected))
    assert json.loads(msgspec.json.encode(values(column))) == expected


def test_records_come_as_objects_as_columns_and_as_rows():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "b"])
    assert shaped(table, DataFormat.AOS) == [{"a": 1, "b": 2}]
    assert shaped(table, DataFormat.AOA) == [[1, 2]]
    assert shaped(table, DataFormat.SOA) == {"a": [1], "b": [2]}


def test_floats_have_an_exponent_with_a_sign_from_the_sixteenth_power_of_ten_on():
    column = pa.array([1e15, 1e16, -1.5e300, 1e-5, 1e-7, -0.0])
    text = msgspec.json.encode(values(column))
    assert text == b"[1000000000000000.0,1e+16,-1.5e+300,0.00001,1e-7,-0.0]"
    assert csv_cells.lines(pa.record_batch([pa.array([1e16])], ["x"])) == b"1e+16\r\n"


def test_structs_in_rows_without_names_have_no_names_either():
    table = pa.table({"a": [{"x": 1, "y": [{"z": 2}]}, None]})
    assert shaped(table, DataFormat.AOA) == [[[1, [[2]]]], [None]]
    assert shaped(table, DataFormat.AOS) == [{"a": {"x": 1, "y": [{"z": 2}]}}, {"a": None}]


DAY_S = 86_400
SECONDS = st.integers(-9 * 10**10, 4 * 10**11)
INSTANTS = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "+02:00", "-03:30"]
TEXTS_OF_THE_ENGINE = {
    **{pa.timestamp("ms", zone): (SECONDS, 1000) for zone in [None, *INSTANTS]},
    pa.timestamp("s"): (SECONDS, 1),
    pa.timestamp("ns", "UTC"): (st.integers(-(2**33), 2**33), 10**9),
    pa.date32(): (st.integers(-(10**7), 10**7), 1),
    pa.date64(): (st.integers(-(10**9), 10**10), 1000),
    pa.time32("s"): (st.integers(0, DAY_S - 1), 1),
    pa.time32("ms"): (st.integers(0, DAY_S - 1), 1000),
    pa.time64("us"): (st.integers(0, DAY_S - 1), 10**6),
    pa.time64("ns"): (st.integers(0, DAY_S - 1), 10**9),
}


@pytest.mark.parametrize("kind", list(TEXTS_OF_THE_ENGINE), ids=str)
def test_times_have_the_text_that_arrows_rust_implementation_gives_them(kind):
    whole, unit = TEXTS_OF_THE_ENGINE[kind]
    numbers = [0, 1, unit // 2]
    fractions = st.sampled_from([n for n in (0, 1, 500, 500_000, unit - 1) if n < unit])

    @settings(max_examples=int(os.environ.get("ODF_TEST_TEXTS", "200")), database=None)
    @given(whole, fractions)
    def gather(seconds: int, rest: int) -> None:
        numbers.append(seconds * unit + rest)

    gather()
    stored = pa.int32() if kind.bit_width == 32 else pa.int64()
    column = pa.array(numbers, stored).view(kind)
    context = SessionContext()
    context.register_record_batches("t", [[pa.record_batch([column], ["x"])]])
    plain = column.cast(pa.timestamp(kind.unit, "UTC")) if getattr(kind, "tz", None) else column
    context.register_record_batches("u", [[pa.record_batch([plain], ["x"])]])
    texts = [
        context.sql(f"select cast(x as varchar) as text from {name}").to_arrow_table()["text"]
        for name in "tu"
    ]
    told = [
        by_zone if _second(by_zone) == _second(by_utc) else by_utc
        for by_zone, by_utc in zip(*(each.to_pylist() for each in texts), strict=True)
    ]
    assert values(column) == told
    assert csv_cells.lines(pa.record_batch([column], ["x"])).decode().splitlines() == told


def _second(text: str) -> str:
    """The second of the minute. Zones before standard time have offsets with seconds, of which the
    text of the engine has the minutes alone, so that it names another instant."""
    return text.partition("T")[2][6:8]


SCHEMA = from_arrow(
    pa.schema(
        [
            pa.field("a", pa.int8(), nullable=False),
            pa.field("b", pa.decimal128(12, 3)),
            pa.field("c", pa.list_(pa.field("item", pa.float32()))),
            pa.field("d", pa.struct([pa.field("x", pa.bool_()), pa.field("y", pa.date32())])),
            pa.field("e", pa.time64("us")),
            pa.field("f", pa.duration("ns")),
            pa.field("g", pa.binary(4)),
            pa.field("h", pa.map_(pa.string(), pa.int64())),
            pa.field("i", pa.timestamp("ns", "UTC"), nullable=False),
            pa.field("j", pa.uint16()),
            pa.field("k", pa.float64()),
        ]
    )
)


@pytest.mark.parametrize("form", list(SchemaFormat))
def test_every_type_has_a_form_in_every_schema_format(form):
    shown = written(SCHEMA, form)
    assert json.loads(msgspec.json.encode(shown)) == shown


def test_arrow_json_writes_types_as_the_rust_implementation_does():
    fields = {f["name"]: f["data_type"] for f in written(SCHEMA, SchemaFormat.ARROW_JSON)["fields"]}
    assert fields["a"] == "Int8"
    assert fields["b"] == {"Decimal128": [12, 3]}
    assert fields["c"]["List"]["data_type"] == "Float32"
    assert [f["data_type"] for f in fields["d"]["Struct"]] == ["Boolean", "Date32"]
    assert fields["e"] == {"Time64": "Microsecond"}
    assert fields["f"] == {"Duration": "Nanosecond"}
    assert fields["g"] == {"FixedSizeBinary": 4}
    assert fields["h"]["Map"][1] is False
    assert (fields["j"], fields["k"]) == ("UInt16", "Float64")


def test_parquet_text_nests_groups():
    text = written(SCHEMA, SchemaFormat.PARQUET)
    assert "  REQUIRED INT32 a (INTEGER(8,true));\n" in text
    assert "  OPTIONAL INT64 b (DECIMAL(12,3));\n" in text
    assert "  OPTIONAL group c (LIST) {\n    REPEATED group list {\n" in text
    assert "      OPTIONAL FLOAT element;\n" in text
