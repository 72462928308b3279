"""Every strategy does what its rules say, written once more in plain Python, on random rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.workers.histories import history_of_rows

from odf_protocol.chain.state import Vocab
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_workers.merge.strategies import MERGE, merging_of
from odf_workers.slices.schema import POSITION

KEY = ("r", "k0")
TYPES = {
    "offset": pa.int64(),
    "op": pa.int32(),
    "at": pa.int64(),
    "r": pa.string(),
    "k0": pa.float64(),
    "v": pa.list_(pa.int64()),
}
Row = dict[str, Any]
Rows = list[Row]
APPEND, RETRACT, FROM, TO = range(4)


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def state(prev: Rows) -> dict[tuple[Any, ...], Row]:
    last = {key_of(row): row for row in prev}
    return {key: row for key, row in last.items() if row["op"] != RETRACT}


def differs(old: Row, new: Row) -> bool:
    return new["v"] != old["v"] or new["at"] not in (None, old["at"])


def appended(_: Rows, new: Rows) -> Rows:
    return [{**row, "op": APPEND} for row in new]


def ledger(prev: Rows, new: Rows) -> Rows:
    seen = {key_of(row) for row in prev}
    return appended(prev, [r for r in new if None in key_of(r) or key_of(r) not in seen])


def snapshot(prev: Rows, new: Rows) -> Rows:
    stood, named = state(prev), {key_of(row) for row in new}
    gone = [{**row, "op": RETRACT} for key, row in stood.items() if key not in named]
    return gone + [each for row in new for each in changes(stood.get(key_of(row)), row)]


def upsert(prev: Rows, new: Rows) -> Rows:
    stood, done = state(prev), []
    for key, row in {key_of(row): row for row in new}.items():
        old = stood.get(key)
        if row["op"] == RETRACT:
            done += [] if old is None else [{**old, "op": RETRACT}]
        else:
            done += changes(old, row)
    return done


def changes(old: Row | None, new: Row) -> Rows:
    if old is None:
        return [{**new, "op": APPEND}]
    return [{**old, "op": FROM}, {**new, "op": TO}] if differs(old, new) else []


def changelog(prev: Rows, new: Rows, time: int | None = None) -> Rows:
    """The rows as they are; a row that takes another back has its time, others that of the post."""
    stands: dict[tuple[Any, ...], Row | None] = {**state(prev)}
    done = []
    for row in new:
        at, old = row["at"], stands.get(key_of(row))
        if at is None and row["op"] in (RETRACT, FROM) and old is not None:
            at = old["at"]
        done.append({**row, "at": time if at is None else at})
        stands[key_of(row)] = None if row["op"] == RETRACT else done[-1]
    return done


def rows_made(chance: random.Random, count: int) -> Rows:
    return [
        {
            "op": chance.choice([APPEND, APPEND, RETRACT, None, TO]),
            "at": chance.choice([None, 1, 2]),
            "r": chance.choice([None, "", "A", "é", "Z" * 40]),
            "k0": chance.choice([None, 0.0, 1.5, -2.0]),
            "v": chance.choice([None, [], [1], [1, None]]),
        }
        for _ in range(count)
    ]


def table_of(rows: Rows, names: list[str]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], TYPES[name]) for name in names}
    if "offset" not in names:
        columns[POSITION] = pa.array(range(len(rows)), pa.int64())
    return pa.table(columns)


def told(rows: Rows) -> list[str]:
    return sorted(str([row[name] for name in ("op", "at", "r", "k0", "v")]) for row in rows)


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [
        (MergeStrategyAppend(), appended),
        (MergeStrategyLedger(primary_key=KEY), ledger),
        (MergeStrategySnapshot(primary_key=KEY), snapshot),
        (MergeStrategyUpsertStream(primary_key=KEY), upsert),
        (MergeStrategyChangelogStream(primary_key=KEY), changelog),
    ],
    ids=["append", "ledger", "snapshot", "upsert", "changelog"],
)
def test_a_merge_gives_what_its_rules_say(
    strategy: MergeStrategy, rule: Callable[[Rows, Rows], Rows], tmp_path: Path
) -> None:
    chance = random.Random(7)
    prev = rows_made(chance, 60)
    for at, row in enumerate(prev):
        row |= {"offset": at, "op": row["op"] or APPEND, "at": row["at"] or 0}
    new = rows_made(chance, 40)
    names = ["at", "r", "k0", "v"]
    if isinstance(strategy, MergeStrategySnapshot):
        new = list({key_of(row): row for row in new}.values())
    if MERGE[type(strategy)].takes_operations:
        names = ["op", *names]
    if isinstance(strategy, MergeStrategyChangelogStream):
        for row in new:
            row["op"] = chance.choice([APPEND, RETRACT])
    merging = merging_of(strategy, Vocab(event_time_column="at"))
    slices = [table_of(rows, list(TYPES)) for rows in (prev[:40], prev[40:])]
    history = None
    if MERGE[type(strategy)].reads_history:
        history = history_of_rows(slices, strategy, merging, tmp_path)
    result = MERGE[type(strategy)].merge(merging, table_of(new, names), history).rows
    assert told(result.to_pylist()) == told(rule(prev, new))
