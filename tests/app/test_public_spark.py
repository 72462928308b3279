"""What the source for Spark makes of options, types and filters, without a Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from refusals import refusing

from odf_node.public.spark import Options, pushed, spark_schema, to_spark
from odf_protocol.errors import BadInput
from odf_storage.datasets.pruning.filters import Filter, MalformedFilter

SCHEMA = pa.schema(
    [("n", pa.int64()), ("u", pa.uint8()), ("s", pa.string()), ("f", pa.float64()),
     ("day", pa.date32()), ("at", pa.timestamp("ms", "UTC"))]
)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "x", "partitions": "3"}, "no option 'partitions'"),
        ({}, "no address"),
        ({"path": "x", "maxPartitionBytes": "many"}, "is a whole number above 0"),
        ({"path": "x", "maxFilesPerTrigger": "0"}, "is a whole number above 0"),
        ({"path": "x", "at": "yesterday"}, "at is the hash of a block, not 'yesterday'"),
    ],
)
def test_an_option_that_is_none_is_said(given: dict[str, str], said: str) -> None:
    with refusing("UnusableOption", match=said):
        assert Options.of(given).block


def test_filters_are_written_one_in_a_line() -> None:
    asked = Options.of({"path": "x", "filter": "a:eq:1\nb:null", "filterPushdown": "TRUE"})
    assert asked.filters == [Filter("a", "eq", ("1",)), Filter("b", "null")]
    assert asked.filterpushdown
    with pytest.raises(MalformedFilter):
        assert Options.of({"path": "x", "filter": "a=1"}).filters


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (spark.EqualTo(("n",), 3), Filter("n", "eq", ("3",))),
        (spark.GreaterThan(("n",), -3), Filter("n", "gt", ("-3",))),
        (spark.LessThanOrEqual(("day",), date(2026, 1, 2)), Filter("day", "le", ("2026-01-02",))),
        (spark.In(("s",), ("a", 'b,"c')), Filter("s", "in", ("a", 'b,"c'))),
        (spark.IsNotNull(("f",)), Filter("f", "notnull")),
        (spark.In(("s",), ("a", None)), None),
        (spark.EqualNullSafe(("n",), 3), None),
        (spark.Not(spark.EqualTo(("n",), 3)), None),
        (spark.EqualTo(("f",), 1.0), None),
        (spark.EqualTo(("u",), 1), None),
        (spark.EqualTo(("n", "inner"), 1), None),
        (spark.EqualTo(("missing",), 1), None),
    ],
)
def test_filters_are_taken_where_both_sides_mean_the_same(given: Any, taken: Filter | None) -> None:
    assert pushed([given], SCHEMA) == ([] if taken is None else [taken])


def test_columns_become_the_next_type_that_holds_their_values() -> None:
    batch = pa.record_batch(
        {
            "u": pa.array([2**64 - 1], pa.uint64()),
            "t": pa.array([1500], pa.time32("ms")),
            "wide": pa.array([Decimal("1.5")], pa.decimal256(30, 1)),
            "at": pa.array([1_999], pa.timestamp("ns")),
        }
    )
    schema = spark_schema(batch.schema, ["u", "t", "wide", "at"])
    found = to_spark(batch, schema).to_pylist()[0]
    assert (found["u"], found["wide"]) == (Decimal(2**64 - 1), Decimal("1.5"))
    assert (found["t"].microsecond, found["at"].microsecond) == (500_000, 1)


def test_a_type_that_spark_does_not_have_is_said_with_its_column() -> None:
    for unknown in (pa.decimal256(50, 2), pa.list_(pa.uint64())):
        schema = pa.schema([("fine", pa.int64()), ("odd", unknown)])
        with refusing("UnknownToSpark", match="'odd'"):
            spark_schema(schema, None)
        assert spark_schema(schema, ["fine"]).names == ["fine"]
    with pytest.raises(BadInput, match="no column 'town'"):
        spark_schema(SCHEMA, ["town"])
