"""Columns that are read one by one have the hash of the rows that any reader gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_protocol.columns import arrow_columns
from odf_protocol.columns.arrow_columns import SliceDigest
from odf_protocol.columns.arrow_digest import digest_of, logical_hash
from odf_protocol.columns.slice_file import UnreadableSlice
from odf_protocol.multihash import Multihash

ROWS = 1000
TYPES = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time64("us"),
    pa.timestamp("s"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.decimal128(9, 2),
    pa.bool_(),
]


@pytest.fixture(autouse=True)
def looks_at_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read these small files as large ones are read."""
    monkeypatch.setattr(arrow_columns, "FEW_ROWS", 0)


def numbers(kind: Any, nulls: slice | None) -> pa.Array:
    values = np.random.default_rng(7).integers(0, 100, ROWS)
    if pa.types.is_date64(kind):
        values = values * 86_400_000
    mask = np.zeros(ROWS, np.bool_)
    if nulls is not None:
        mask[nulls] = True
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return pa.array(values.astype(float), mask=mask).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(values > 50, mask=mask)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, mask=mask).cast(width).cast(kind)


def numbered(head: str, lengths: Sequence[int]) -> list[str]:
    """Texts of these lengths in turn."""
    return [(head + str(n) * 300)[: lengths[n % len(lengths)]] for n in range(ROWS)]


TEXTS = {
    "of one length": numbered("c", [8]),
    "of many lengths": numbered("a word ", [4, 9, 31, 12]),
    "short": numbered("", [1, 2, 3]),
    "one of them empty": ["a", "", *numbered("a", [7, 8])[2:]],
    "all empty": [""] * ROWS,
    "up to 255 bytes": numbered("b", [255, 40]),
    "longer": numbered("b", [256, 40]),
    "longer, of one length": numbered("b", [300]),
    "beyond ASCII": [f"Zürich {n} €" for n in range(ROWS)],
    "with zeros": ["\0\0\0" + text for text in numbered("", [2, 5])],
    "that look like lengths": ["\3\0\0\0abc" * (1 + n % 2) for n in range(ROWS)],
}


def texts(name: str, nulls: slice | None, kind: Any) -> pa.Array:
    values: list[Any] = list(TEXTS[name])
    if nulls is not None:
        values[nulls] = [None] * len(values[nulls])
    return pa.array(values, pa.string()).cast(kind)


def content_of(table: pa.Table, **settings: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


def column_by_column(content: pa.Buffer) -> Multihash:
    digest = SliceDigest(pq.ParquetFile(content), content)
    return digest.finish([hashlib.sha3_256(b"".join(each)).digest() for each in digest.streams])


def row_by_row(content: pa.Buffer) -> Multihash:
    return digest_of(pq.ParquetFile(content)).finish()


NULLS = {"none": None, "some": slice(30, 50), "end": slice(900, None), "all": slice(None)}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionaries that end": {"dictionary_pagesize_limit": 200},
    "not compressed": {"use_dictionary": False, "compression": "none"},
    "zstd": {"use_dictionary": False, "compression": "zstd"},
    "pages of format 2": {"use_dictionary": False, "data_page_version": "2.0"},
    "row groups": {"use_dictionary": False, "row_group_size": 300},
    "no statistics": {"use_dictionary": False, "write_statistics": False},
    "other encoding": {
        "use_dictionary": False,
        "column_encoding": {"int64": "DELTA_BINARY_PACKED"},
    },
    "types of Arrow": {"use_dictionary": False, "store_schema": True},
}


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_have_the_hash_of_what_a_reader_gives(layout: str, nulls: str) -> None:
    columns = {str(kind): numbers(kind, NULLS[nulls]) for kind in TYPES}
    for name in TEXTS:
        kind = pa.binary() if "zeros" in name else pa.string()
        columns[name] = texts(name, NULLS[nulls], kind)
    table = pa.table(columns)
    required = pa.schema(
        [pa.field(f"{f.name} required", f.type, nullable=False) for f in table.schema]
    )
    if nulls == "none":
        for field, values in zip(required, table.columns, strict=True):
            table = table.append_column(field, values)
    settings = {"store_schema": False, **LAYOUTS[layout]}
    content = content_of(table, data_page_size=100, write_batch_size=40, **settings)
    read = pq.ParquetFile(content)
    expected = logical_hash(read.iter_batches(), read.schema_arrow)
    assert row_by_row(content) == expected
    assert column_by_column(content) == expected


@pytest.mark.parametrize("layout", [{}, *LAYOUTS.values()])
def test_few_rows_have_the_same_hash_and_their_chunks_are_not_looked_at(
    layout: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"number": numbers(pa.float64(), slice(3, 9)), "text": TEXTS["of many lengths"]}
    content = content_of(pa.table(columns), **layout)
    expected = column_by_column(content)
    monkeypatch.setattr(arrow_columns, "FEW_ROWS", ROWS)
    monkeypatch.delattr(arrow_columns, "row_groups")
    assert column_by_column(content) == expected


def test_a_page_that_was_tampered_with_is_refused_or_read_as_a_reader_reads_it() -> None:
    one = pa.array(np.full(ROWS, 3), pa.int32())
    table = pa.table(
        {
            "n": numbers(pa.int64(), None),
            "x": numbers(pa.float64(), None),
            "one": one,
            "code": TEXTS["of one length"],
            "name": TEXTS["of many lengths"],
        }
    )
    settings = {"use_dictionary": ["one"], "write_statistics": False, "store_schema": False}
    content = content_of(table, data_page_size=800, write_batch_size=100, **settings)
    sound = content.to_pybytes()
    random = np.random.default_rng(3)
    end = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    heads = [at for start in pages_of(content) for at in range(start, start + 40) if at < end]
    for round_ in range(400):
        raw = bytearray(sound)
        at = int(heads[round_ % len(heads)]) if round_ % 3 else int(random.integers(4, end))
        raw[at] = int(random.integers(0, 256))
        damaged = pa.py_buffer(bytes(raw))
        try:
            expected = row_by_row(damaged)
        except UnreadableSlice:
            continue
        assert column_by_column(damaged) == expected


def pages_of(content: pa.Buffer) -> Iterator[int]:
    """Where the chunks begin."""
    group = pq.ParquetFile(content).metadata.row_group(0)
    for at in range(group.num_columns):
        chunk = group.column(at)
        yield from {chunk.data_page_offset, chunk.dictionary_page_offset} - {None}
