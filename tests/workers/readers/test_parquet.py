"""Parquet files are bounded by what they unpack to, whatever their footers say."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from odf_protocol.errors import NodeError
from odf_protocol.metadata.sources import ReadStepParquet
from odf_workers.readers.formats import parquet_bounds
from odf_workers.readers.formats.parquet import read_parquet
from odf_workers.readers.formats.parquet_bounds import sizes
from odf_workers.runtime.command import PrepareLimits
from odf_workers.slices.schema import InputTooLarge, Limits

SMALL = Limits(cell_bytes=1_000, row_bytes=1_500)


def written(folder: Path, table: pa.Table, **options: Any) -> Path:
    path = folder / "input.parquet"
    pq.write_table(table, path, **options)
    return path


def read(path: Path, limits: Limits | None = None) -> pa.Table:
    frame = read_parquet(ReadStepParquet(), path, None, limits or Limits())
    assert frame is not None
    return frame.table()


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize(
    "made",
    [
        lambda text: pa.array(["a", text], pa.string()),
        lambda text: pa.array([b"a", text.encode()], pa.large_binary()),
        lambda text: pa.array([["a"], [text[:600], text[600:]]]),
        lambda text: pa.array([{"m": "a"}, {"m": text}]),
        lambda text: pa.array([[("k", "a")], [("k", text)]], pa.map_(pa.string(), pa.string())),
    ],
)
def test_a_value_above_its_limit_is_refused_with_row_and_column(
    made: Any, use_dictionary: bool, tmp_path: Path
) -> None:
    path = written(tmp_path, pa.table({"v": made("x" * 990)}), use_dictionary=use_dictionary)
    assert read(path, SMALL).num_rows == 2
    path = written(tmp_path, pa.table({"v": made("x" * 1_001)}), use_dictionary=use_dictionary)
    with pytest.raises(InputTooLarge, match="row 2, column `v`") as refused:
        read(path, SMALL)
    assert refused.value.facts["setting"] == "ODF_WORKER_MAX_ROW_BYTES"


def test_a_row_above_its_limit_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "x" * 800], "b": ["x", "y" * 800]})
    with pytest.raises(InputTooLarge, match="row 2: the record") as refused:
        read(written(tmp_path, table), SMALL)
    assert refused.value.facts["setting"] == "ODF_WORKER_MAX_ROW_BYTES"


def test_a_cell_of_many_megabytes_in_a_small_file_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, pa.table({"v": ["x" * (200 << 20)]}), compression="zstd")
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    with pytest.raises(InputTooLarge, match="a page of the Parquet file"):
        read(path)
    assert pool.bytes_allocated() - before < 1 << 20


def test_few_bytes_that_unpack_to_many_values_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One long value very often: a dictionary of one entry, and runs."""
    monkeypatch.setattr(parquet_bounds, "FLOOR_BYTES", 128 << 20)
    indices = pa.array(np.zeros(300_000, np.int32))
    column = pa.DictionaryArray.from_arrays(indices, ["x" * 1_000])
    path = written(tmp_path, pa.table({"v": column}))
    assert path.stat().st_size < 100_000
    frame = read_parquet(ReadStepParquet(), path, None, Limits())
    assert frame is not None
    taken = []
    with refusing("DecompressionTooLarge") as refused:
        taken.extend(batch.nbytes for batch in frame.batches)
    assert max(taken) <= parquet_bounds.BATCH_BYTES * 1.1
    assert sum(taken) <= parquet_bounds.FLOOR_BYTES * 1.1
    assert refused.value.facts["setting"] == "ODF_WORKER_MAX_UNPACK_RATIO"


def test_runs_of_a_number_without_end_are_refused_before_a_value_is_read(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000_000, np.int32)), [7])
    path = written(tmp_path, pa.table({"v": column.cast(pa.int64())}))
    limits = Limits(archives=PrepareLimits(max_bytes=1 << 20))
    with refusing("DecompressionTooLarge"):
        read_parquet(ReadStepParquet(), path, None, limits)


def test_values_that_begin_like_the_one_before_are_read_few_at_a_time(tmp_path: Path) -> None:
    table = pa.table({"v": ["x" * 100_000] * 3_000})
    path = written(tmp_path, table, use_dictionary=False, column_encoding={"v": "DELTA_BYTE_ARRAY"})
    frame = read_parquet(ReadStepParquet(), path, None, Limits())
    assert frame is not None
    rows = 0
    for batch in frame.batches:
        assert batch.num_rows <= parquet_bounds.PREFIX_ROWS
        rows += batch.num_rows
    assert rows == 3_000


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_all_kinds_of_columns_come_as_they_were_written(version: str, tmp_path: Path) -> None:
    rows = 25_000
    table = pa.table(
        {
            "n": pa.array(range(rows)),
            "city": [f"city {at % 7}" for at in range(rows)],
            "note": [None if at % 3 else f"note {at}" for at in range(rows)],
            "tags": [["a", None, str(at)][: at % 4] for at in range(rows)],
            "nested": [{"m": "x", "n": [{"k": "y"}]}] * rows,
            "fixed": pa.array([[1, 2]] * rows, pa.list_(pa.int32(), 2)),
            "flags": pa.array([at % 2 == 0 for at in range(rows)]),
            "bytes": pa.array([b"\0\xff"] * rows, pa.binary(2)),
            "price": pa.array([1] * rows, pa.decimal128(9, 2)),
        }
    )
    for use in (True, False):
        path = written(tmp_path, table, use_dictionary=use, data_page_version=version)
        assert read(path).equals(table)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["ab", None, "c"]),
        pa.array([["ab", "c"], None, []]),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
        pa.array(["ab", None, "c"]).dictionary_encode(),
        pa.array([{"a": "x", "b": 1}, None]),
    ],
)
def test_sizes_of_a_part_are_those_of_the_whole(column: pa.Array) -> None:
    for start in range(len(column) + 1):
        assert sizes(column.slice(start)).tolist() == sizes(column).tolist()[start:]


def test_a_name_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, pa.table({"namename": [1]}), store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"namename", b"name\xff\xfeme"))
    with refusing("MalformedParquet", match="UTF-8"):
        read(path)


@pytest.mark.parametrize("store_schema", [True, False])
def test_whatever_a_footer_says_only_refusals_come_of_it(
    store_schema: bool, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "n": pa.array(range(500)),
            "s": [f"city {at % 5}" for at in range(500)],
            "l": [["a", str(at)] for at in range(500)],
        }
    )
    path = written(tmp_path, table, store_schema=store_schema)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    chance = random.Random(31)
    for _ in range(150):
        harmed = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            harmed[chance.randrange(len(whole) - 8 - footer, len(whole) - 4)] = chance.randrange(
                256
            )
        path.write_bytes(harmed)
        with suppress(NodeError):
            read(path)
