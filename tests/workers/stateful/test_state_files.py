"""The checkpoint: sections are merged by bucket, equal rows give equal bytes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_workers.engines.stateful import ForeignState
from odf_workers.engines.stateful.results import BUCKET
from odf_workers.engines.stateful.state import (
    extract,
    open_state,
    waking,
    write_section,
    write_state,
)
from odf_workers.engines.stateful.times import AT

SCHEMA = pa.schema({BUCKET: pa.int64(), AT: pa.int64(), "v": pa.string()})
Rows = list[tuple[int, int, str]]


def batches(rows: Rows, size: int) -> list[pa.RecordBatch]:
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows])
    return table.cast(SCHEMA).to_batches(max_chunksize=size) if rows else []


def section(path: Path, rows: Rows, size: int = 3) -> Path:
    none = np.empty(0, np.int64)
    write_section(path, SCHEMA, iter(batches(rows, size)), old=None, replaced=none, keep=None)
    return path


def read(path: Path) -> Rows:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("seed", range(30))
def test_touched_buckets_are_replaced_and_the_rest_stays_in_order(
    seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    old = sorted((random.randrange(-9, 9), random.randrange(9), str(n)) for n in range(40))
    touched = sorted(random.sample(range(-9, 9), 6))
    new = sorted((random.choice(touched), random.randrange(9), f"n{n}") for n in range(20))
    keep = random.choice([None, 4])
    path = section(tmp_path / "old", old)
    found = tmp_path / "new"
    count = write_section(
        found,
        SCHEMA,
        iter(batches(new, random.randrange(1, 9))),
        old=path,
        replaced=np.array(touched, np.int64),
        keep=keep,
    )
    stays = [row for row in old if row[0] not in touched and (keep is None or row[1] >= keep)]
    assert read(found) == sorted([*stays, *new])
    assert count == len(stays) + len(new)


def test_equal_rows_give_equal_bytes_however_they_came(tmp_path: Path) -> None:
    rows = [(n // 3, n, str(n)) for n in range(100)]
    one = section(tmp_path / "one.parquet", rows, size=1)
    halves = section(tmp_path / "half", [row for row in rows if row[0] % 2])
    none = np.empty(0, np.int64)
    other = tmp_path / "other.parquet"
    even = iter(batches([row for row in rows if row[0] % 2 == 0], 7))
    write_section(other, SCHEMA, even, old=halves, replaced=none, keep=None)
    assert one.read_bytes() == other.read_bytes()
    write_state(tmp_path / "a", "q", {"x": 1}, [one])
    write_state(tmp_path / "b", "q", {"x": 1}, [one])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_step_reads_only_the_buckets_it_touches(tmp_path: Path) -> None:
    rows = [(n, n % 5, str(n)) for n in range(50)]
    path = section(tmp_path / "rows", rows)
    assert waking(path, (1, 2)).tolist() == [n for n in range(50) if n % 5 == 1]
    assert waking(path, (None, 1)).tolist() == [n for n in range(50) if n % 5 == 0]
    assert waking(path, (3, 3)).tolist() == []
    assert waking(None, (None, 9)).tolist() == []
    assert extract(path, np.array([-1, 7, 49], np.int64), tmp_path / "some") == 2
    assert [row[0] for row in read(tmp_path / "some")] == [7, 49]


def test_a_state_is_read_back(tmp_path: Path) -> None:
    path = section(tmp_path / "0-0.parquet", [(1, 2, "x")])
    write_state(tmp_path / "state", "query", {"a": 5, "b": None}, [path])
    state = open_state(tmp_path / "state", "query", tmp_path / "open")
    assert state.watermarks == {"a": 5, "b": None}
    found = state.path("0-0.parquet")
    assert found is not None
    assert read(found) == [(1, 2, "x")]
    assert state.path("0-1.parquet") is None


@pytest.mark.parametrize("damage", ["other query", "no tar"])
def test_a_foreign_state_is_refused(damage: str, tmp_path: Path) -> None:
    write_state(tmp_path / "state", "query", {}, [])
    if damage == "no tar":
        (tmp_path / "state").write_bytes(b"1234")
    with pytest.raises(ForeignState):
        open_state(tmp_path / "state", "another", tmp_path / "open")
