"""Logical hashes: known answers, and what must not matter."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lanes import lay_open
from refusals import refusing

from odf_protocol.columns import arrow_columns
from odf_protocol.columns.arrow_columns import Columns, SliceDigest
from odf_protocol.columns.arrow_digest import (
    ArrowDigest,
    UnsupportedColumn,
    digest_of,
    logical_hash,
    logical_hash_of,
)
from odf_protocol.columns.arrow_values import stream, validity
from odf_protocol.columns.slice_file import UnreadableSlice, open_slice
from odf_storage.lanes import hash_all

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/logical-hash.json").read_text())[
    "vectors"
]


def _named(what: str) -> list[object]:
    return [pytest.param(v, id=v["name"]) for v in VECTORS if v["what"] == what]


def _open(vector: dict) -> pa.RecordBatchReader:
    return pa.ipc.open_stream(base64.b64decode(vector["ipc"]))


def _digest(data: object, schema: pa.Schema | None = None) -> str:
    batch = pa.record_batch(data, schema=schema)
    return str(logical_hash([batch], batch.schema))


@pytest.mark.parametrize("vector", _named("logical"))
def test_batches_have_the_hash_the_reference_gives_them(vector: dict) -> None:
    stream = _open(vector)
    assert str(logical_hash(stream, stream.schema)) == vector["hash"]


@pytest.mark.parametrize("vector", _named("logical-parquet"))
def test_a_data_file_has_the_hash_of_its_rows(vector: dict) -> None:
    file = pq.ParquetFile(io.BytesIO(base64.b64decode(vector["parquet"])))
    assert str(logical_hash_of(file)) == vector["hash"]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("vector", _named("logical-parquet"))
def test_a_data_file_has_it_also_when_its_columns_are_hashed_as_streams(
    vector: dict, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if at_once:
        lay_open(monkeypatch)
    content = pa.py_buffer(base64.b64decode(vector["parquet"]))
    digest = SliceDigest(open_slice(content), content)
    assert str(digest.finish(hash_all(digest.streams))) == vector["hash"]


@pytest.mark.parametrize("vector", _named("logical-unsupported"))
def test_columns_without_a_digest_are_refused(vector: dict) -> None:
    stream = _open(vector)
    with pytest.raises(UnsupportedColumn):
        logical_hash(stream, stream.schema)


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.duration("s"),
        pa.map_(pa.string(), pa.int32()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.null()),
        pa.list_view(pa.int32()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.sparse_union([pa.field("a", pa.int32())]),
    ],
    ids=str,
)
def test_an_unsupported_type_is_refused_before_any_row(arrow_type: pa.DataType) -> None:
    with pytest.raises(UnsupportedColumn) as refused:
        ArrowDigest(pa.schema([("ok", pa.int8()), ("bad", arrow_type)]))
    assert refused.value.facts["column"] == "bad"


def test_all_layouts_of_text_have_one_hash() -> None:
    values = ["", None, "short", "a text that is too long to be stored inside of a view" * 3]
    layouts = (pa.string(), pa.large_string(), pa.string_view())
    assert len({_digest({"c": pa.array(values, layout)}) for layout in layouts}) == 1


def test_all_layouts_of_bytes_have_one_hash_even_fixed_ones() -> None:
    values = [b"one", None, b"two"]
    layouts = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))
    assert len({_digest({"c": pa.array(values, layout)}) for layout in layouts}) == 1


def test_all_layouts_of_lists_have_one_hash() -> None:
    values = [[1, 2], None, [None, 4]]
    layouts = (pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_(pa.int32(), 2))
    assert len({_digest({"c": pa.array(values, layout)}) for layout in layouts}) == 1


def test_slices_of_fixed_size_lists_count_only_their_items() -> None:
    whole = pa.array([[1, 2], None, [None, 4], [5, 6]], pa.list_(pa.int32(), 2))
    copy = pa.array([None, [None, 4]], whole.type)
    assert _digest({"c": whole.slice(1, 2)}) == _digest({"c": copy})


def test_bytes_hidden_behind_a_null_do_not_count() -> None:
    hidden = pa.Array.from_buffers(
        pa.string(),
        3,
        [
            pa.py_buffer(b"\x05"),
            pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0\6\0\0\0"),
            pa.py_buffer(b"aaXXbb"),
        ],
    )
    assert _digest({"c": hidden}) == _digest({"c": pa.array(["aa", None, "bb"])})


def test_items_hidden_behind_a_null_list_do_not_count() -> None:
    offsets = pa.array([0, 1, 3, 4], pa.int32())
    hidden = pa.ListArray.from_arrays(
        offsets, pa.array(["a", "X", None, "b"]), mask=pa.array([False, True, False])
    )
    assert _digest({"c": hidden}) == _digest({"c": pa.array([["a"], None, ["b"]])})


def test_an_extension_type_counts_as_its_storage() -> None:
    plain = pa.array([b"0123456789abcdef", None], pa.binary(16))
    assert _digest({"c": pa.ExtensionArray.from_storage(pa.uuid(), plain)}) == _digest({"c": plain})


def test_time_zones_count_as_text() -> None:
    utc, offset = (pa.array([0], pa.timestamp("ms", zone)) for zone in ("UTC", "+00:00"))
    assert _digest({"c": utc}) != _digest({"c": offset})


def test_a_slice_of_a_struct_counts_only_its_visible_rows() -> None:
    whole = pa.array([{"a": 1}, {"a": None}, None, {"a": 4}])
    copy = pa.array([{"a": None}, None], whole.type)
    assert _digest({"s": whole.slice(1, 2)}) == _digest({"s": copy})


def test_nulls_of_parent_and_child_in_one_batch_make_the_hash_indeterminate() -> None:
    schema = pa.schema([("s", pa.struct([("v", pa.int32())]))])
    clear, unclear = ArrowDigest(schema), ArrowDigest(schema)
    clear.update(pa.record_batch([pa.array([{"v": 1}, None])], schema=schema).slice(0, 1))
    unclear.update(pa.record_batch([pa.array([{"v": None}, None], schema[0].type)], schema=schema))
    assert (clear.indeterminate, unclear.indeterminate) == (False, True)


def test_a_batch_with_other_columns_is_refused() -> None:
    digest = ArrowDigest(pa.schema([("a", pa.int8())]))
    with refusing("SchemaDiffers"):
        digest.update(pa.record_batch({"b": pa.array([1], pa.int8())}))


def test_struct_windows_ignore_how_the_file_is_cut_into_row_groups() -> None:
    rows = [{"v": None if n % 3 == 0 else n} if n % 5 else None for n in range(25_000)]
    table = pa.table({"s": pa.array(rows, pa.struct([("v", pa.int64())]))})
    hashes = set()
    for size in (25_000, 10_000, 3_333):
        pq.write_table(table, sink := io.BytesIO(), row_group_size=size)
        digest = digest_of(pq.ParquetFile(sink))
        hashes.add(str(digest.finish()))
        content = pa.py_buffer(sink.getvalue())
        streams = SliceDigest(open_slice(content), content)
        hashes.add(str(streams.finish(hash_all(streams.streams))))
        assert digest.indeterminate
        assert streams.indeterminate
    assert len(hashes) == 1


def test_a_file_that_breaks_off_inside_is_a_damaged_slice() -> None:
    pq.write_table(pa.table({"a": list(range(10_000))}), sink := io.BytesIO(), use_dictionary=False)
    raw = bytearray(sink.getvalue())
    raw[20:2000] = b"\xff" * 1980
    with pytest.raises(UnreadableSlice):
        logical_hash_of(pq.ParquetFile(io.BytesIO(raw)))


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_536])
def test_lengths_of_any_number_of_bytes_stand_before_texts(length: int) -> None:
    array = pa.array(["a", "x" * length, None, "", "b"])
    valid = validity(array)
    frame = [b"a", b"x" * length, None, b"", b"b"]
    expected = (b"\0" if t is None else struct.pack("<Q", len(t)) + t for t in frame)
    assert bytes(stream(array, valid)) == b"".join(expected)


def test_what_hides_below_a_null_is_not_hashed() -> None:
    shown = pa.array(["a", "hidden", "b"])
    bitmap = pa.py_buffer(b"\x05")
    hiding = pa.Array.from_buffers(pa.string(), 3, [bitmap, *shown.buffers()[1:]])
    schema = pa.schema([("c", pa.string())])
    plain = pa.record_batch([pa.array(["a", None, "b"])], schema=schema)
    assert logical_hash([pa.record_batch([hiding], schema=schema)], schema) == logical_hash(
        [plain], schema
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_text_in_dictionaries_has_the_hash_of_its_values(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups with dictionaries of their own, nulls, empty words, bytes, a column of nulls."""
    monkeypatch.setattr(arrow_columns, "FEW_ROWS", 0)
    rows = 300
    words = [None if n % 7 == 0 else "w" * (n % 5) + str(n // 100) for n in range(rows)]
    table = pa.table(
        {
            "words": words,
            "nothing": pa.array([None] * rows, pa.string()),
            "codes": [str(100 + n % 13) for n in range(rows)],
            "codes and nulls": [None if n % 3 else str(100 + n % 13) for n in range(rows)],
            "raw": pa.array([None if w is None else w.encode() for w in words], pa.binary()),
            "numbers": pa.array(range(rows), pa.int32()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100, version="1.0", store_schema=False)
    content = sink.getvalue()

    with pq.ParquetFile(content) as file:
        assert all(column.coded for column in Columns(file, content).all[:5])
        digest = SliceDigest(file, content)
        found = digest.finish(hash_all(digest.streams, threads=threads))
    assert found == logical_hash(table.to_batches(), table.schema)
