"""Values taken from pages as they lie there: hashed as the rows a reader gives, or read by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from protocol.arrow_columns import Columns
from protocol.arrow_digest import UnreadableSlice, digest_of, logical_hash
from protocol.multihash import Multihash
from protocol.plain_pages import plain_values

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
CLEAR = [
    "of one length",
    "of many lengths",
    "short",
    "up to 255 bytes",
    "longer, of one length",
    "beyond ASCII",
]
"""Those that need no reader."""


def texts(name: str, nulls: slice | None, kind: Any) -> pa.Array:
    values: list[Any] = list(TEXTS[name])
    if nulls is not None:
        values[nulls] = [None] * len(values[nulls])
    return pa.array(values, pa.string()).cast(kind)


def content_of(table: pa.Table, **settings: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


def reopened(content: pa.Buffer, names: Sequence[str]) -> pq.ParquetFile:
    return pq.ParquetFile(content, read_dictionary=names)


def by_pages(content: pa.Buffer) -> Multihash:
    file, reopen = pq.ParquetFile(content), partial(reopened, content)
    return digest_of(file, reopen=reopen, content=content).finish()


def by_reader(content: pa.Buffer) -> Multihash:
    return digest_of(pq.ParquetFile(content), reopen=partial(reopened, content)).finish()


def handed_out(content: pa.Buffer) -> dict[str, int]:
    """How many values of each column come from pages."""
    file = pq.ParquetFile(content)
    counts = {}
    for column in Columns(file, partial(reopened, content), content).all:
        groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
        chunks = [group.column(column.leaves[0]) for group in groups]
        counts[column.name] = sum(
            laid.rows
            for chunk in chunks
            if column.width is not None
            for laid in plain_values(content, chunk, column.width, optional=column.optional)
        )
    return counts


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
    assert by_reader(content) == expected
    assert by_pages(content) == expected


def test_all_pages_without_a_null_are_handed_out_and_those_behind_a_dictionary() -> None:
    whole = numbers(pa.int64(), None)
    table = pa.table({"whole": whole, "few nulls": numbers(pa.int64(), slice(30, 50))})
    settings = {"data_page_size": 100, "write_batch_size": 40}
    plain = content_of(table, use_dictionary=False, write_statistics=False, **settings)
    assert handed_out(plain) == {"whole": ROWS, "few nulls": ROWS - 80}
    ends = content_of(table, dictionary_pagesize_limit=200, **settings)
    assert 0 < handed_out(ends)["whole"] < ROWS
    assert handed_out(ends)["few nulls"] == 0, "its statistics tell"


@pytest.mark.parametrize("nullable", [True, False])
def test_a_number_that_is_the_same_all_over_a_page_comes_without_a_reader(nullable: bool) -> None:
    values = np.repeat([5, 7, 7, 9], [400, 300, 200, 100])
    schema = pa.schema([pa.field("n", pa.int32(), nullable=nullable)])
    table = pa.table([pa.array(values, pa.int32())], schema=schema)
    content = content_of(table, data_page_size=10, write_batch_size=100)
    assert handed_out(content) == {"n": ROWS}
    assert by_pages(content) == logical_hash(table.to_batches(), schema)
    mixed = content_of(table, data_page_size=10, write_batch_size=250)
    assert handed_out(mixed) == {"n": 500}, "two of four pages hold two numbers"
    assert by_pages(mixed) == logical_hash(table.to_batches(), schema)


@pytest.mark.parametrize("nullable", [True, False])
def test_texts_whose_lengths_are_seen_come_without_a_reader(nullable: bool) -> None:
    fields = [pa.field(name, pa.string(), nullable=nullable) for name in TEXTS]
    table = pa.table([texts(name, None, pa.string()) for name in TEXTS], pa.schema(fields))
    content = content_of(table, use_dictionary=False, data_page_size=100, write_batch_size=1000)
    assert handed_out(content) == {name: ROWS if name in CLEAR else 0 for name in TEXTS}


def test_texts_behind_a_page_in_doubt_are_read_as_those_of_the_page() -> None:
    values = [*numbered("a", [5, 6])[:450], "", *numbered("a", [5, 6])[451:]]
    table = pa.table({"t": values})
    content = content_of(table, use_dictionary=False, data_page_size=100, write_batch_size=100)
    assert handed_out(content) == {"t": 400}
    assert by_pages(content) == logical_hash(table.to_batches(), table.schema)


def test_a_large_page_of_text_is_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"t": TEXTS["of one length"]})
    content = content_of(table, use_dictionary=False)
    assert handed_out(content) == {"t": ROWS}
    monkeypatch.setattr("protocol.plain_pages.MAX_TEXT_BYTES", 12 * ROWS - 1)
    assert handed_out(content) == {"t": 0}
    assert by_pages(content) == logical_hash(table.to_batches(), table.schema)


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
            expected = by_reader(damaged)
        except UnreadableSlice:
            continue
        assert by_pages(damaged) == expected


def pages_of(content: pa.Buffer) -> Iterator[int]:
    """Where the chunks begin."""
    group = pq.ParquetFile(content).metadata.row_group(0)
    for at in range(group.num_columns):
        chunk = group.column(at)
        yield from {chunk.data_page_offset, chunk.dictionary_page_offset} - {None}
