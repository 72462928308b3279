"""What a run leaves for the next: the checkpoint, also that of an older node."""

from __future__ import annotations

import tarfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.stateful.playing import Play, Row, t

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

A, R, BEFORE, AFTER = 0, 1, 2, 3
OLD = Path(__file__).parent / "checkpoint-of-format-1.tar"
"""What `QUERY` kept of `FIRST`, by the node that wrote this format first."""
QUERY = (
    "select window(event_time, '1 day').start as event_time, k, count(*) as n, sum(d) as d, "
    "max(f) as f from (select x.event_time, x.k, x.d, y.f from x left join y on x.k <=> y.k "
    "and y.event_time between x.event_time - interval 1 hour and x.event_time + interval 1 hour) "
    "group by window(event_time, '1 day'), k"
)
COLUMNS = {
    "x": {"k": pa.string(), "d": pa.decimal128(10, 2)},
    "y": {"k": pa.string(), "f": pa.float64()},
}
FIRST: dict[str, list[Row]] = {
    "x": [(A, t(1), None, Decimal("1.25")), (A, t(2), "\u00e9", None), (A, t(30), "k", Decimal(7))],
    "y": [(A, t(1), None, float("nan")), (A, t(2), "\u00e9", -0.0), (A, t(40), "k", 1.5)],
}
SECOND: dict[str, list[Row]] = {
    "x": [
        (BEFORE, *FIRST["x"][0][1:]),
        (AFTER, t(1), None, Decimal("2.50")),
        (A, t(50), "k", None),
    ],
    "y": [(R, *FIRST["y"][1][1:]), (A, t(31), "k", 2.5)],
}


def test_a_checkpoint_of_an_older_node_is_written_alike_and_gone_on_from(
    spark: SparkSession, tmp_path: Path
) -> None:
    fresh = Play(spark, tmp_path, QUERY, COLUMNS)
    fresh.step(FIRST, {"x": t(26), "y": t(28)})
    assert fresh.state is not None
    assert sections(fresh.state) == sections(OLD)
    folder = tmp_path / "old"
    folder.mkdir()
    old = Play(spark, folder, QUERY, COLUMNS)
    old.plan, old.state, old.offsets = fresh.plan, OLD, dict.fromkeys(COLUMNS, 3)
    told = [play.step(SECOND, {"x": t(60), "y": t(60)}) for play in (fresh, old)]
    assert repr(told[0]) == repr(told[1])  # a NaN equals none
    assert len(told[0]) == 5


def sections(checkpoint: Path) -> dict[str, Any]:
    """What is in a checkpoint, whatever library wrote its files."""
    with tarfile.open(checkpoint) as tar:
        found: dict[str, Any] = {}
        for entry in tar:
            content = tar.extractfile(entry)
            assert content is not None
            if entry.name.endswith(".parquet"):
                table = pq.read_table(pa.BufferReader(content.read()))
                found[entry.name] = (table.schema, repr(table.to_pylist()))
            else:
                found[entry.name] = content.read()
    return found


def test_runs_of_one_plan_take_their_own_rows_and_watermarks(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = (
        "select window(event_time, '1 hour').start as event_time, k, count(*) as n "
        "from x group by window(event_time, '1 hour'), k"
    )
    play = Play(spark, tmp_path, query, {"x": {"k": pa.string()}})
    assert play.step({"x": [(A, t(1), "a")]}, {"x": t(2)}) == [(A, t(1), "a", 1)]
    for hour in range(3, 6):
        told = play.step({"x": [(A, t(hour), key) for key in "aab"]}, {"x": t(hour + 1)})
        assert told == [(A, t(hour), "a", 2), (A, t(hour), "b", 1)]
