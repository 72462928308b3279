"""A merge without an engine gives the rows that Spark gives, in the same order."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from throwaway import throwaway_stores

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_node.storage.datasets.merge_state.store import MergeStates
from odf_node.workers.jobs.ingest import merged as merging_here
from odf_node.workers.jobs.ingest.merged import MergeRun, merged
from odf_node.workers.jobs.ingest.ordering import sorted_rows
from odf_node.workers.jobs.ingest.stage import Staged
from odf_node.workers.merge.table import MERGE, merging_of
from odf_node.workers.slices.columns import POSITION, CannotMerge
from tests.workers import tables
from tests.workers.datasets import bench_without_engine, created, ndjson, upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

none: Any = None
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


def run_of(
    strategy: MergeStrategy,
    stands: list[dict[str, Any]],
    batch: list[dict[str, Any]],
    folder: Path,
) -> MergeRun:
    """As `met.py` would hand it over."""
    takes_operations = MERGE[type(strategy)].takes_operations
    schema = pa.schema([*([pa.field("op", pa.int32())] if takes_operations else []), *DATA])
    rows = pa.Table.from_pylist(batch, schema)
    table = rows.append_column(POSITION, pa.array(range(len(batch)), pa.int64()))
    pq.write_table(pa.Table.from_pylist(stands, SLICE), folder / "history.parquet")
    return MergeRun(
        staged=Staged(
            path=folder / "staged.parquet",
            schema=schema,
            rows=len(batch),
            table=table,
            event_time_nulls=rows.column("at").null_count,
            size=rows.nbytes,
        ),
        strategy=strategy,
        vocab=Vocab(event_time_column="at"),
        source_event_time=NOW,
        schema=pa.schema([*SLICE]),
        history=[folder / "history.parquet"] if stands else [],
        history_rows=len(stands),
        projected=True,
        distinct=isinstance(strategy, MergeStrategySnapshot),
    )


def told(run: MergeRun, session: SparkSession | None, folder: Path) -> list[str]:
    """The rows in their order, with what is filled while they are written."""
    batches = list(merged(run, session, folder))  # type: ignore[arg-type]
    names = ["op", *DATA.names]
    rows = [each for batch in batches for each in batch.select(names).to_pylist()]
    fallback = NOW.millis / 1000
    for each in rows:
        each["at"] = fallback if each["at"] is None else each["at"].timestamp()
    return [str(each) for each in rows]


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_both_ways_give_the_same_rows_in_the_same_order(
    strategy: MergeStrategy, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(strategy, *sides(strategy, 11, 240), tmp_path)
    here = told(run, None, tmp_path)
    assert len({line[:8] for line in here}) >= 3  # nearly all operations occur
    monkeypatch.setattr(merging_here, "_merges_here", lambda *_: False)
    assert told(run, spark, tmp_path) == here


@pytest.mark.spark
def test_both_ways_begin_a_history_alike(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(UPSERT, [], sides(UPSERT, 5, 120)[1], tmp_path)
    here = told(run, None, tmp_path)
    monkeypatch.setattr(merging_here, "_merges_here", lambda *_: False)
    assert told(run, spark, tmp_path) == here


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_what_comes_out_applied_to_what_stood_is_what_was_asked_for(
    strategy: MergeStrategy, seed: int, tmp_path: Path
) -> None:
    stands, batch = sides(strategy, seed, 160)
    state = {key_of(each, strategy): each["op"] for each in stands}
    run = run_of(strategy, stands, batch, tmp_path)
    result = pa.Table.from_batches(list(merged(run, none, tmp_path)))
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


def in_memory(table: dict[str, Any], *, numbered: bool) -> pa.Table:
    types = {"op": pa.int32(), "city": pa.string(), "zone": pa.string(), "updated_at": pa.string()}
    columns = {
        name: pa.array([each[at] for each in table["rows"]], types.get(name, pa.int64()))
        for at, name in enumerate(table["columns"])
    }
    if numbered:
        columns[POSITION] = pa.array(range(len(table["rows"])), pa.int64())
    return pa.table(columns)


def standing(table: dict[str, Any], key: tuple[str, ...]) -> pa.Table:
    rows = in_memory(table, numbered=False)
    last = {key_of_row(each, key): at for at, each in enumerate(rows.to_pylist())}
    kept = [at for at in last.values() if rows.column("op")[at].as_py() != 1]
    return rows.take(pa.array(kept, pa.int64()))


def key_of_row(each: dict[str, Any], key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(each.get(name) for name in key)


def vectors() -> list[Any]:
    kinds = ("UpsertStream", "Snapshot")
    cases = [c for c in tables.cases("merge") if c["given"]["operation"] != "project"]
    cases = [c for c in cases if c["given"]["strategy"]["kind"] in kinds]
    # a first snapshot is taken as it is, by everybody
    return [c for c in cases if c["given"]["prev"] or c["given"]["strategy"]["kind"] != "Snapshot"]


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in vectors()])
def test_a_batch_merges_as_the_answer_says_without_an_engine(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    strategy: MergeStrategy = from_data(given["strategy"], MergeStrategy)
    merging = merging_of(strategy, Vocab(event_time_column=given["vocab"]["event_time"]))
    rule = MERGE[type(strategy)]
    assert rule.here is not None
    new = in_memory(given["new"], numbered=True)
    prev = standing(given["prev"], merging.key) if given["prev"] else None
    if "error" in expect:
        with pytest.raises(CannotMerge):
            rule.here(merging, prev, new)
        return
    result = rule.here(merging, prev, new)
    keys = [result.column(name) for name in rule.order(merging)]
    result = pa.Table.from_batches(sorted_rows(result, keys), result.schema)
    rows = tables.rows_of(result.select(expect["table"]["columns"]))
    wanted = expect["table"]["rows"]
    if expect.get("ordered") is False:
        rows, wanted = sorted(rows), sorted(wanted)
    assert rows == wanted
    assert {n for n in result.column_names if n != POSITION} == set(expect["table"]["columns"])


@pytest.mark.parametrize(
    "merge",
    [MergeStrategyUpsertStream(primary_key=("n",)), MergeStrategySnapshot(primary_key=("n",))],
    ids=["upsert", "snapshot"],
)
def test_small_batches_need_no_engine(merge: MergeStrategy, tmp_path: Path) -> None:
    from odf_node.workers.jobs.ingest.run import run_ingest

    stores = throwaway_stores()
    states = MergeStates(tmp_path / "merge-state", max_bytes=1 << 30)
    bench = bench_without_engine(stores, tmp_path, states=states)
    dataset = created(stores, merge=merge)
    receipts = []
    for shift in range(3):
        rows = [{"n": n, "v": n // 2 + shift // 2} for n in range(shift, 10 + shift)]
        receipts.append(run_ingest(dataset, upload(stores, dataset, ndjson(rows)), bench, now=NOW))
    counts = [(r.rows_added, r.rows_retracted, r.rows_corrected, r.rows_known) for r in receipts]
    gone = 0 if isinstance(merge, MergeStrategyUpsertStream) else 1
    assert counts == [(10, 0, 0, 0), (1, gone, 0, 9), (1, gone, 9, 0)]


def test_what_is_not_one_row_per_key_or_not_equal_alike_asks_spark(tmp_path: Path) -> None:
    stands, batch = sides(UPSERT, 1, 40)
    run = run_of(UPSERT, stands, batch, tmp_path)
    rule = MERGE[MergeStrategyUpsertStream]

    def here(other: MergeRun, **known: Any) -> bool:
        parts = {"projected": other.projected, "distinct": other.distinct} | known
        merging = merging_of(other.strategy, other.vocab)
        merging = type(merging)(vocab=other.vocab, key=merging.key, **parts)
        return merging_here._merges_here(other, rule, merging, rule.order(merging))

    assert here(run)
    assert not here(run, projected=False)
    assert here(replace(run, history=[]), projected=False)
    assert not here(replace(run, sort_bytes=1000))
    nested = pa.schema([*run.schema, pa.field("l", pa.list_(pa.int64()))])
    assert not here(replace(run, schema=nested))
    by_float = MergeStrategyUpsertStream(primary_key=("v",))
    assert not here(replace(run, strategy=by_float))
