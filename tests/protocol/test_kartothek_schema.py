"""Schema files: types are normalised, pandas gets its entry, files of the library are read."""

from __future__ import annotations

import io
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kartothek_vectors import KARTOTHEK, expectations
from refusals import perhaps_refusing, refusing

from odf_protocol.kartothek.keys import UnsupportedColumn
from odf_protocol.kartothek.partition_values import (
    decode_schema,
    encode_schema,
    pandas_entry,
    table_schema,
)

FILES = sorted(KARTOTHEK.rglob("_common_metadata"))
PARTITION_KEYS = {each["uuid"]: each["partition_keys"] for each in expectations()} | {
    "inventory": ["warehouse"]
}
NESTED = pa.list_(pa.list_(pa.utf8()))
NORMAL = [
    (pa.int8(), pa.int64(), "int64", "int64", None),
    (pa.uint16(), pa.uint64(), "uint64", "uint64", None),
    (pa.float32(), pa.float64(), "float64", "float64", None),
    (pa.float16(), pa.float64(), "float64", "float64", None),
    (pa.bool_(), pa.bool_(), "bool", "bool", None),
    (pa.large_string(), pa.string(), "unicode", "object", None),
    (pa.dictionary(pa.int8(), pa.large_string()), pa.string(), "unicode", "object", None),
    (pa.binary(4), pa.binary(), "bytes", "object", None),
    (pa.date64(), pa.date32(), "date", "object", None),
    (pa.timestamp("ns"), pa.timestamp("us"), "datetime", "datetime64[ns]", None),
    (
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us", "UTC"),
        "datetimetz",
        "datetime64[ns]",
        {"timezone": "UTC"},
    ),
    (
        pa.decimal128(4, 2),
        pa.decimal128(4, 2),
        "decimal",
        "object",
        {"precision": 4, "scale": 2},
    ),
    (pa.large_list(pa.int16()), pa.list_(pa.int64()), "list[int64]", "object", None),
    (NESTED, NESTED, "list[list[unicode]]", "object", None),
    (pa.null(), pa.null(), "empty", "object", None),
]  # fmt: skip


@pytest.mark.parametrize(("given_type", "wanted", "pandas", "numpy", "more"), NORMAL, ids=str)
def test_a_type_is_normalised_and_has_words_for_pandas(given_type, wanted, pandas, numpy, more):
    schema = table_schema(pa.schema([("c", given_type)]))
    assert schema.field("c").type == wanted
    [column] = pandas_entry(schema)["columns"]
    assert column == {
        "name": "c",
        "field_name": "c",
        "pandas_type": pandas,
        "numpy_type": numpy,
        "metadata": more,
    }


def test_partition_columns_come_first_and_others_by_code_point():
    names = ["b", "Z", "ä", "a", "q", "p"]
    schema = table_schema(pa.schema([(name, pa.int64()) for name in names]), ["q", "p"])
    assert schema.names == ["q", "p", "Z", "a", "b", "ä"]


def test_a_partition_column_is_one_of_the_columns():
    with pytest.raises(UnsupportedColumn, match="'p'"):
        table_schema(pa.schema([("a", pa.int64())]), ["p"])


def test_a_schema_file_is_read_as_it_was_written_and_by_pandas():
    kinds = [(f"c{at}", given_type) for at, (given_type, *_) in enumerate(NORMAL)]
    schema = table_schema(pa.schema(kinds))
    raw = encode_schema(schema)
    assert decode_schema(raw, "k") == schema
    file = pq.ParquetFile(io.BytesIO(raw))
    assert file.metadata.num_rows == 0
    frame = pd.read_parquet(io.BytesIO(raw))
    assert sorted(frame.columns) == sorted(schema.names)
    assert str(frame.dtypes["c10"]).endswith(", UTC]")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.parent.name)
def test_our_rules_make_the_schema_files_of_the_library(path):
    found = decode_schema(path.read_bytes(), path.name)
    theirs = pq.read_schema(path)
    ours = table_schema(found, PARTITION_KEYS[path.parent.parent.name])
    assert ours.names == found.names == theirs.names
    assert {field.name: field.type for field in ours} == {
        field.name: pa.timestamp("us") if field.type == pa.timestamp("ns") else field.type
        for field in found
    }
    words = {each["name"]: each for each in json.loads(theirs.metadata[b"pandas"])["columns"]}
    for column in pandas_entry(ours)["columns"]:
        their = words[column["name"]]
        if their["numpy_type"] != "str":  # pandas 3 has words of its own for text
            assert column["pandas_type"] == their["pandas_type"]
        assert column["metadata"] == their["metadata"]


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" * 10, b"x" * 100])
def test_what_is_no_parquet_is_refused_by_name(raw):
    with refusing("MalformedSchemaFile") as refused:
        decode_schema(raw, "u/table/_common_metadata")
    assert refused.value.facts["key"] == "u/table/_common_metadata"


def test_two_columns_of_one_name_are_refused():
    sink = io.BytesIO()
    pq.write_metadata(pa.schema([("a", pa.int64()), ("a", pa.utf8())]), sink)
    with refusing("MalformedSchemaFile", match="one name"):
        decode_schema(sink.getvalue(), "k")


WHOLE = encode_schema(table_schema(pa.schema([("a", pa.int64()), ("b", pa.list_(pa.utf8()))])))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
@settings(deadline=None, max_examples=300)
def test_a_damaged_schema_file_is_read_or_refused(at, byte):
    raw = WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]
    with perhaps_refusing("MalformedSchemaFile"):
        assert decode_schema(raw, "k") is not None
