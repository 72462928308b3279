"""Small slices are made in memory: the same bytes and hashes as those that are written to disk."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_workers.slices.conform import NullCounts
from odf_workers.slices.costs import weight
from odf_workers.slices.schema import MILLIS
from odf_workers.slices.write import (
    SlicePlan,
    described,
    described_small,
    is_read_as_written,
    write_batches,
    write_slice,
    write_small,
)

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [1, None, -3]),
    "int64": (pa.int64(), [1, None, 1 << 60]),
    "uint32": (pa.uint32(), [1, None, 1 << 31]),
    "float32": (pa.float32(), [0.5, None, float("nan")]),
    "float64": (pa.float64(), [0.5, None, -0.0]),
    "bool": (pa.bool_(), [True, None, False]),
    "text": (pa.string(), ["a", None, ""]),
    "large-text": (pa.large_string(), ["a", None, "ü"]),
    "bytes": (pa.binary(), [b"a", None, b"\0"]),
    "fixed-bytes": (pa.binary(2), [b"ab", None, b"\0\0"]),
    "date": (pa.date32(), [date(2024, 1, 1), None, date(1, 1, 1)]),
    "time": (pa.time32("ms"), [1, None, 2]),
    "micros": (pa.timestamp("us"), [1, None, -1]),
    "nanos": (pa.timestamp("ns", "UTC"), [1, None, -1]),
    "berlin": (pa.timestamp("ms", "Europe/Berlin"), [1, None, -1]),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.5"), None, Decimal(-2)]),
    "list": (pa.list_(pa.int32()), [[1, None], None, []]),
    "struct": (pa.struct([("x", pa.int32())]), [{"x": 1}, None, {"x": None}]),
}
PLAIN = ("int8", "int64", "uint32", "float32", "float64", "bool", "text", "bytes", "date")
"""Of these files say everything."""


def rows_of(kind: str) -> pa.RecordBatch:
    value_type, values = VALUES[kind]
    count = len(values)
    times = pa.array([5] * count, MILLIS)
    columns = {
        "offset": pa.array(range(7, 7 + count), pa.int64()),
        "op": pa.array([0] * count, pa.int32()),
        "system_time": times,
        "event_time": times,
        "value": pa.array(values, value_type),
    }
    fields = [pa.field(name, each.type, name == "value") for name, each in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


@pytest.mark.parametrize("kind", VALUES)
def test_a_small_slice_has_the_bytes_and_hashes_of_one_on_disk(tmp_path: Path, kind: str) -> None:
    rows = rows_of(kind)
    batches = [rows.slice(0, 2), rows.slice(2)]
    file = tmp_path / "slice"
    write_batches(batches, rows.schema, file)
    content = write_small(batches, rows.schema)
    assert content.to_pybytes() == file.read_bytes()
    assert described_small(content, batches, 7) == described(file, 7)


@pytest.mark.parametrize("kind", VALUES)
def test_rows_are_hashed_as_they_are_only_where_the_file_gives_the_same_ones(kind: str) -> None:
    schema = rows_of(kind).schema
    assert is_read_as_written(schema) or kind not in PLAIN
    if is_read_as_written(schema):
        file = pq.ParquetFile(io.BytesIO(write_small([rows_of(kind)], schema).to_pybytes()))
        assert file.schema_arrow.types == schema.types


@pytest.mark.parametrize("kind", VALUES)
def test_rows_weigh_the_same_wherever_their_values_lie(kind: str) -> None:
    rows = rows_of(kind)
    for start, count in ((0, 3), (1, 2), (0, 1), (3, 0)):
        part = rows.slice(start, count)
        alone = pa.RecordBatch.from_pylist(part.to_pylist(), schema=rows.schema)
        assert weight(part) == weight(alone)
    assert weight(rows) == sum(weight(rows.slice(at, 1)) for at in range(3))


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_small_slice_stays_in_memory_where_it_may(tmp_path: Path, in_memory: bool) -> None:
    rows = rows_of("text")
    when = Instant.from_millis(5)
    plan = SlicePlan(
        schema=rows.schema, vocab=Vocab(), start=7, system_time=when, source_event_time=when
    )
    path, nulls = tmp_path / "new" / "slice", NullCounts(rows.schema)
    written = write_slice(iter([rows]), plan, path, nulls, in_memory=in_memory)
    assert (written.content is not None, path.exists()) == (in_memory, not in_memory)
    content = b"".join(written.chunks())
    assert written.data is not None
    assert len(content) == written.data.size
    assert pq.ParquetFile(written.source()).metadata.num_rows == 3
    assert pq.read_table(io.BytesIO(content)).num_rows == 3
    assert written.operations == {0: 3}
