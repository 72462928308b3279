"""Merges of one partition and of many: the same rows in the same order."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from tests.workers.histories import history_of_rows
from throwaway import throwaway_stores

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_workers.merge.history import hashes_of, key_range, key_ranges
from odf_workers.merge.strategies import MERGE, MergeOrder, merging_of, sort_indices
from odf_workers.slices.schema import POSITION

MILLIS = pa.timestamp("ms", "UTC")
NOW = Instant.parse("2050-01-01T12:00:00Z")
DATA = pa.schema(
    [
        pa.field("at", MILLIS),
        pa.field("k", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("v", pa.float64()),
        pa.field("small", pa.float32()),
        pa.field("d", pa.decimal128(12, 2)),
        pa.field("b", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("n", pa.int32()),
    ]
)
SLICE = pa.schema([pa.field("offset", pa.int64()), pa.field("op", pa.int32()), *DATA])
KEY = ("k", "city", "flag")
UPSERT = MergeStrategyUpsertStream(primary_key=KEY)
STRATEGIES: dict[str, MergeStrategy] = {
    "upsert": UPSERT,
    "upsert by time": MergeStrategyUpsertStream(primary_key=("at", "k")),
    "upsert of one column": MergeStrategyUpsertStream(primary_key=("city",)),
    "snapshot": MergeStrategySnapshot(primary_key=KEY),
    "snapshot of two columns": MergeStrategySnapshot(primary_key=KEY, compare_columns=("v", "at")),
}
VALUES: dict[str, list[Any]] = {
    "at": [None, datetime(2020, 1, 1, tzinfo=UTC), datetime(1999, 5, 5, 1, 2, 3, 4000, UTC)],
    "city": [None, "", "A", "B", "é", "Z" * 40],
    "flag": [None, True, False],
    "v": [None, 0.0, -0.0, math.nan, math.inf, 1.5],
    "small": [None, 0.0, -0.0, math.nan, 2.5],
    "d": [None, Decimal("1.50"), Decimal("-0.01")],
    "b": [None, b"", b"\0\xff"],
    "day": [None, date(1970, 1, 1), date(1500, 2, 3)],
    "n": [None, 0, -1],
}


def row(chance: random.Random, key: int, like: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row; one that is `like` another differs in few columns or in none."""
    new = {"k": key, **{name: chance.choice(values) for name, values in VALUES.items()}}
    if like is None:
        return new
    kept = [name for name in VALUES if chance.random() < 0.93]
    return {**new, **{name: like[name] for name in kept}, "k": like["k"]}


def key_of(each: dict[str, Any], strategy: MergeStrategy) -> tuple[Any, ...]:
    return tuple(each[name] for name in getattr(strategy, "primary_key", ()))


def sides(
    strategy: MergeStrategy, seed: int, size: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What stands, one row per key, and a batch."""
    chance = random.Random(seed)
    rows = [row(chance, chance.randrange(size // 4)) for _ in range(size)]
    stands = list({key_of(each, strategy): each for each in rows}.values())
    for number, each in enumerate(stands):
        each |= {"offset": number, "op": chance.choice([0, 3])}
        each["at"] = each["at"] or datetime(2010, 1, 1, tzinfo=UTC)
    batch = [row(chance, 0, chance.choice(stands)) for _ in range(size)]
    batch += [row(chance, chance.randrange(size // 4)) for _ in range(size // 2)]
    chance.shuffle(batch)
    for each in batch:
        each["op"] = chance.choice([None, 0, 0, 0, 1, 2, 3])
    if isinstance(strategy, MergeStrategySnapshot):
        batch = list({key_of(each, strategy): each for each in batch}.values())
    return stands, batch


def merged(
    strategy: MergeStrategy,
    stands: list[dict[str, Any]],
    batch: list[dict[str, Any]],
    folder: Path,
    *,
    ranges: int = 1,
) -> pa.Table:
    """The rows of a merge in their order, merged by so many ranges of their keys' hashes."""
    rule, vocab = MERGE[type(strategy)], Vocab(event_time_column="at")
    merging = merging_of(strategy, vocab)
    schema = pa.schema([*([pa.field("op", pa.int32())] if rule.takes_operations else []), *DATA])
    rows = pa.Table.from_pylist(batch, schema)
    rows = rows.append_column(POSITION, pa.array(range(len(batch)), pa.int64()))
    slices = [pa.Table.from_pylist(each, SLICE) for each in (stands[::2], stands[1::2]) if each]
    whole = history_of_rows(slices, strategy, merging, folder) if slices else None
    at = key_range(hashes_of(rows, merging.key), ranges)
    parts = []
    for number, (low, high) in enumerate(key_ranges(ranges)):
        history = None if whole is None else replace(whole, low=low, high=high)
        parts.append(rule.merge(merging, rows.filter(pa.array(at == number)), history).rows)
    table = pa.concat_tables(parts)
    order = MergeOrder(columns=rule.order(merging), event_time="at", fallback=NOW)
    return table.take(sort_indices(table, order))


def told(table: pa.Table) -> list[str]:
    """The rows in their order, with what is filled while they are written."""
    rows = table.select(["op", *DATA.names]).to_pylist()
    fallback = NOW.millis / 1000
    for each in rows:
        each["at"] = fallback if each["at"] is None else each["at"].timestamp()
    return [str(each) for each in rows]


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_ranges_of_keys_give_the_rows_of_the_whole(strategy: MergeStrategy, tmp_path: Path) -> None:
    stands, batch = sides(strategy, 11, 240)
    whole = told(merged(strategy, stands, batch, tmp_path))
    assert len({line[:8] for line in whole}) >= 3  # nearly all operations occur
    for ranges in (2, 7):
        folder = tmp_path / str(ranges)
        folder.mkdir()
        assert told(merged(strategy, stands, batch, folder, ranges=ranges)) == whole


def test_ranges_of_keys_begin_a_history_alike(tmp_path: Path) -> None:
    batch = sides(UPSERT, 5, 120)[1]
    whole = told(merged(UPSERT, [], batch, tmp_path))
    assert told(merged(UPSERT, [], batch, tmp_path, ranges=3)) == whole


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_what_comes_out_applied_to_what_stood_is_what_was_asked_for(
    strategy: MergeStrategy, seed: int, tmp_path: Path
) -> None:
    stands, batch = sides(strategy, seed, 160)
    state = {key_of(each, strategy): each["op"] for each in stands}
    result = merged(strategy, stands, batch, tmp_path)
    for each in result.to_pylist():
        key = key_of(each, strategy)
        if each["op"] in (1, 2):
            assert state.pop(key, None) is not None
        else:
            assert key not in state
            state[key] = 0
    wanted = {key_of(each, strategy): each["op"] for each in batch}
    if isinstance(strategy, MergeStrategySnapshot):
        assert set(state) == set(wanted)
    else:
        gone = {key for key, op in wanted.items() if op == 1}
        assert set(state) == ({key_of(e, strategy) for e in stands} | set(wanted)) - gone


@pytest.mark.parametrize(
    "merge",
    [MergeStrategyUpsertStream(primary_key=("n",)), MergeStrategySnapshot(primary_key=("n",))],
    ids=["upsert", "snapshot"],
)
def test_small_batches_need_no_engine(merge: MergeStrategy, tmp_path: Path) -> None:
    from odf_workers.jobs.ingest.run import run_ingest

    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path)
    dataset = created(stores, merge=merge)
    receipts = []
    for shift in range(3):
        rows = [{"n": n, "v": n // 2 + shift // 2} for n in range(shift, 10 + shift)]
        receipts.append(run_ingest(dataset, upload(stores, dataset, ndjson(rows)), bench, now=NOW))
    counts = [(r.rows_added, r.rows_retracted, r.rows_corrected, r.rows_known) for r in receipts]
    gone = 0 if isinstance(merge, MergeStrategyUpsertStream) else 1
    assert counts == [(10, 0, 0, 0), (1, gone, 0, 9), (1, gone, 9, 0)]
