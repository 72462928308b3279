"""Logical hashes follow values: a slow, literal reading of the rules gives the same ones."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_protocol.columns.arrow_digest import logical_hash, logical_hash_of, type_prefix, windows

DAYS = st.integers(-10_000, 10_000)
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=20)),
    (pa.large_string(), st.text(max_size=20)),
    (pa.string_view(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.binary_view(), st.binary(max_size=20)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.decimal128(20, 2), st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.date32(), DAYS),
    (pa.timestamp("ms", "UTC"), st.integers(-(2**40), 2**40)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
]


def _column(kind: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[pa.Array]:
    arrow_type, values = kind
    optional = st.none() | values
    return st.lists(optional, max_size=40).map(lambda rows: pa.array(rows, arrow_type))


def _lists(kind: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[pa.Array]:
    arrow_type, values = kind
    items = st.none() | st.lists(st.none() | values, max_size=4)
    layout = st.sampled_from([pa.list_(arrow_type), pa.large_list(arrow_type)])
    return st.tuples(layout, st.lists(items, max_size=20)).map(lambda p: pa.array(p[1], p[0]))


def _nested_lists(
    kind: tuple[pa.DataType, st.SearchStrategy[Any]],
) -> st.SearchStrategy[pa.Array]:
    arrow_type, values = kind
    inner = st.none() | st.lists(st.none() | values, max_size=3)
    rows = st.lists(st.none() | st.lists(inner, max_size=3), max_size=10)
    return rows.map(lambda r: pa.array(r, pa.list_(pa.list_(arrow_type))))


ARRAYS = st.one_of(*(build(kind) for kind in LEAVES for build in (_column, _lists, _nested_lists)))


def _value(array: pa.Array, position: int) -> bytes:
    """One value as the rules say it, without any of our code."""
    if not array[position].is_valid:
        return b"\0"
    arrow_type = array.type
    if pa.types.is_boolean(arrow_type):
        return b"\2" if array[position].as_py() else b"\1"
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        items = array[position].values
        return struct.pack("<Q", len(items)) + b"".join(_value(items, n) for n in range(len(items)))
    if pa.types.is_decimal(arrow_type) or not _has_length(arrow_type):
        width = arrow_type.bit_width // 8
        return array.buffers()[1].to_pybytes()[(array.offset + position) * width :][:width]
    value = array[position].as_py()
    content = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(content)) + content


def _has_length(arrow_type: pa.DataType) -> bool:
    return any(name in str(arrow_type) for name in ("string", "binary"))


def _slowly(arrays: list[pa.Array], schema: pa.Schema) -> str:
    head = hashlib.sha3_256()
    digests = []
    for field, array in zip(schema, arrays, strict=True):
        name = field.name.encode()
        head.update(struct.pack("<Q", len(name)) + name + struct.pack("<Q", 0))
        column = hashlib.sha3_256(type_prefix(field.type, field.name))
        for position in range(len(array)):
            column.update(_value(array, position))
        digests.append(column.digest())
    for digest in digests:
        head.update(digest)
    return "f9680c00120" + head.hexdigest()


def _fast(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema) -> str:
    return str(logical_hash(batches, schema))


@settings(deadline=None)
@given(st.lists(ARRAYS, max_size=3), st.data())
def test_fast_and_slow_reading_agree_on_slices_too(
    arrays: list[pa.Array], data: st.DataObject
) -> None:
    rows = min((len(array) for array in arrays), default=0)
    start = data.draw(st.integers(0, rows))
    visible = [array.slice(start, rows - start) for array in arrays]
    schema = pa.schema([(f"c{n}", array.type) for n, array in enumerate(arrays)])
    batch = pa.RecordBatch.from_arrays(visible, schema=schema)
    assert _fast([batch], schema) == _slowly(visible, schema)


@settings(deadline=None)
@given(ARRAYS, st.lists(st.integers(0, 40), max_size=5))
def test_cutting_flat_rows_elsewhere_changes_nothing(array: pa.Array, cuts: list[int]) -> None:
    schema = pa.schema([("c", array.type)])
    whole = pa.RecordBatch.from_arrays([array], schema=schema)
    edges = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
    parts = [whole.slice(a, b - a) for a, b in pairwise(edges)]
    assert _fast(parts, schema) == _fast([whole], schema)
    assert _fast([_copy(part) for part in parts], schema) == _fast([whole], schema)


def _copy(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The visible rows alone, in memory of their own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


STRUCTS = st.lists(
    st.none()
    | st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.none() | st.text(max_size=3)}),
    max_size=40,
)
STRUCT_SCHEMA = pa.schema(
    [("s", pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())]))]
)


@settings(deadline=None)
@given(STRUCTS, st.integers(1, 7), st.integers(1, 50))
def test_windows_hold_the_same_rows_in_even_batches(rows: list[Any], size: int, cut: int) -> None:
    table = pa.Table.from_pylist([{"s": row} for row in rows], STRUCT_SCHEMA)
    found = list(windows(iter(table.to_batches(max_chunksize=cut)), size))
    assert [row for batch in found for row in batch.to_pylist()] == table.to_pylist()
    assert all(batch.num_rows == size for batch in found[:-1])


@settings(deadline=None, max_examples=40)
@given(STRUCTS, st.integers(1, 50))
def test_a_file_has_one_hash_whatever_its_row_groups(rows: list[Any], size: int) -> None:
    table = pa.Table.from_pylist([{"s": row} for row in rows], STRUCT_SCHEMA)
    hashes = set()
    for groups in (size, 1 << 20):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=groups)
        hashes.add(logical_hash_of(pq.ParquetFile(pa.BufferReader(sink.getvalue()))))
    assert len(hashes) == 1
