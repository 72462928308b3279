"""Keys of files, and the values of partition columns that they carry."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_protocol.kartothek.keys import (
    MalformedPartition,
    MalformedUuid,
    UnsupportedColumn,
    checked_uuid,
    data_key,
    index_key,
    partition_folder,
    partition_texts,
)
from odf_protocol.kartothek.partition_values import kind_of, text_of, value_of

PEERS_ACCEPT = set(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 /`!\"#$%&'()+,-.<=>?@[\\]^_{}~"
)


def key_of(*values: tuple[str, str]) -> str:
    return data_key("u", partition_folder(values) + "f")


@pytest.mark.parametrize("uuid", ["", "a/b", "a b", "a.b", "ä", "a\n", ".."])
def test_a_uuid_has_few_characters(uuid):
    with pytest.raises(MalformedUuid):
        checked_uuid(uuid)


def test_the_key_of_an_index_has_column_and_time_encoded_and_no_zone():
    at = datetime(2026, 11, 21, 2, 45, 11, tzinfo=UTC)
    assert index_key("u", "a b/c", at) == (
        "u/indices/a%20b%2Fc/2026-11-21T02%3A45%3A11.000000.by-dataset-index.parquet"
    )


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("u/table/f.parquet", []),
        ("u/table/p=a/b/f.parquet", [("p", "a")]),
        ("u/table/p=/f.parquet", [("p", "")]),
        ("u/table/p=a=b/q=1/f.parquet", [("q", "1")]),
        ("u/table/S%C3%A3o=a%2Bb%20%26%2Fc%3Dd/f.parquet", [("São", "a+b &/c=d")]),
        ("elsewhere/f=1.parquet", []),
        ("u/x=1/f.parquet", []),
        ("p=1/f.parquet", []),
    ],
)
def test_components_between_table_and_file_are_the_partition_columns(key, found):
    assert partition_texts(key) == found


def test_a_column_that_stands_in_a_key_twice_is_refused():
    with pytest.raises(MalformedPartition, match="'p' twice"):
        partition_texts("u/table/p=1/p=2/f.parquet")


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("-2", pa.int64(), -2),
        ("9223372036854775813", pa.uint64(), 9223372036854775813),
        ("0.30000000000000004", pa.float64(), 0.1 + 0.2),
        ("1e+300", pa.float64(), 1e300),
        ("-inf", pa.float64(), -math.inf),
        ("", pa.string(), ""),
        ("True", pa.bool_(), True),
        ("fALSE", pa.bool_(), False),
        ("2024-01-01", pa.date32(), date(2024, 1, 1)),
        ("2024-01-02 03:04:05.678901", pa.timestamp("us"), datetime(2024, 1, 2, 3, 4, 5, 678901)),
        ("2024-01-02 03:04:05", pa.timestamp("ns"), datetime(2024, 1, 2, 3, 4, 5)),
        ("1969-12-31T23:59:59", pa.timestamp("s"), datetime(1969, 12, 31, 23, 59, 59)),
        ("\udcff", pa.binary(), b"\xff"),
    ],
)
def test_texts_are_values_of_the_type_of_the_schema(text, wanted, value):
    found = value_of(text, wanted, "k")
    assert (found.type, found.as_py()) == (wanted, value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", pa.int64()),
        ("1.0", pa.int64()),
        ("1_000", pa.int64()),
        ("9223372036854775808", pa.int64()),
        ("-1", pa.uint64()),
        ("٣", pa.int64()),
        ("1_0.5", pa.float64()),
        ("yes", pa.bool_()),
        ("2024-13-01", pa.date32()),
        ("2024-01-01 00:00:01", pa.date32()),
        ("2024-01-02 03:04:05.678901234", pa.timestamp("us")),
        ("2024-01-02 03:04:05+00:00", pa.timestamp("us")),
        ("2024-01-02 03:04:05", pa.timestamp("us", "UTC")),
        ("\udcff", pa.string()),
        ("x", pa.null()),
        ("x", pa.list_(pa.string())),
        ("1" * 5000, pa.float64()),
    ],
)
def test_texts_that_are_no_value_of_the_type_are_refused_with_the_key(text, wanted):
    with pytest.raises(MalformedPartition) as refused:
        value_of(text, wanted, "u/table/p=x/f.parquet")
    assert refused.value.facts["key"] == "u/table/p=x/f.parquet"


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "text"), (math.nan, "float"), (b"a", "binary"), ([1], "list")]
)
def test_what_other_readers_cannot_read_from_a_key_is_not_written(value, kind):
    with pytest.raises(UnsupportedColumn):
        text_of(value, kind)


values = st.one_of(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=10), st.just(pa.string())),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.just(pa.int64())),
    st.tuples(st.integers(0, 2**64 - 1), st.just(pa.uint64())),
    st.tuples(st.floats(allow_nan=False), st.just(pa.float64())),
    st.tuples(st.booleans(), st.just(pa.bool_())),
    st.tuples(st.dates(), st.just(pa.date32())),
    st.tuples(st.datetimes(), st.just(pa.timestamp("us"))),
)


@given(st.text(st.characters(codec="utf-8"), max_size=5), values)
@settings(deadline=None)
def test_every_value_survives_its_way_into_a_key_and_back(column, typed):
    value, wanted = typed
    key = key_of((column, text_of(value, kind_of(wanted))))
    assert set(key) <= PEERS_ACCEPT
    [(name, text)] = partition_texts(key)
    assert (name, value_of(text, wanted, key).as_py()) == (column, value)


@given(st.text(max_size=40), st.sampled_from([pa.int64(), pa.string(), pa.timestamp("ms", "UTC")]))
@settings(deadline=None)
def test_any_text_is_a_value_or_is_refused(text, wanted):
    with suppress(MalformedPartition):
        assert value_of(text, wanted, "k").type == wanted
