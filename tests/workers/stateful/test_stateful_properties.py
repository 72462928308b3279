"""However a changelog is cut into runs, what is told folds to the batch query over what is left.

Each seed plays many small histories at once, one per key: appends, retractions, corrections,
late rows and moving watermarks. The batch answers are computed here in a few lines of Python.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from tests.workers.stateful.playing import Play, Row, t

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEEDS = range(int(os.environ.get("STATEFUL_SEEDS", "1")))
"""`STATEFUL_SEEDS=20` plays more histories, and all queries in one task and in several."""
KEYS, CHUNKS, HOURS = 30, 3, 48
HOUR = timedelta(hours=1)
NAN = float("nan")
COLUMNS = {"k": pa.string(), "v": pa.int32(), "f": pa.float64(), "d": pa.decimal128(10, 2)}
ODD_KEYS = (None, "", "K1", "k1 ", "\u00e9", "e\u0301", "\u00df", "SS", "\0", "\U0001f600")
"""Beside plain ones: equal to nothing, or nearly equal to each other."""
PARTITIONS = (1, 2, 8) if len(SEEDS) > 1 else (3,)
Kept = list[tuple[int, datetime, str | None, int | None, float | None, Any]]
"""Rows that are left: offset, time, data."""


class Chunk(NamedTuple):
    """Rows of one block per input, and the watermarks after it."""

    rows: dict[str, list[Row]]
    watermarks: dict[str, datetime]


def history(seed: int, aliases: Sequence[str]) -> list[Chunk]:
    """Chunks of a valid changelog: only what is there goes, and −C comes with its +C."""
    random = Random(seed)
    left: dict[str, list[Row]] = {alias: [] for alias in aliases}
    chunks = []
    for number in range(CHUNKS):
        rows: dict[str, list[Row]] = {alias: [] for alias in aliases}
        for alias in aliases:
            for _ in range(KEYS * 3 if random.random() < 0.9 else 0):
                rows[alias] += _change(random, left[alias], number)
        # One input may stand still for a while.
        marks = {
            alias: t(number * HOURS // CHUNKS + random.randrange(8))
            for alias in aliases
            if random.random() < 0.8 or number == CHUNKS - 1
        }
        chunks.append(Chunk(rows, marks))
    return chunks


def _change(random: Random, left: list[Row], number: int) -> list[Row]:
    kind = random.random()
    if left and kind < 0.3:
        old = left.pop(random.randrange(len(left)))
        if kind < 0.12:
            return [(1, *old)]
        new = _row(random, number)
        # Mostly another value at the same time, sometimes another time or key.
        new = (old[0], old[1], *new[2:]) if random.random() < 0.7 else new
        left.append(new)
        return [(2, *old), (3, *new)]
    left.append(_row(random, number))
    if random.random() < 0.1:
        left.append(left[-1])
        return [(0, *left[-1]), (0, *left[-1])]
    return [(0, *left[-1])]


def _row(random: Random, number: int) -> Row:
    start = number * HOURS // CHUNKS
    hour = start + random.randrange(-20, HOURS // CHUNKS + 5)
    value = random.choice([None, *range(6)])
    some = random.choice([None, 0.1, 0.2, 0.3, 1e17, -1e17, -0.0, 0.0, NAN])
    return (
        t(max(hour, 0)),
        random.choice(ODD_KEYS) if random.random() < 0.2 else f"k{random.randrange(KEYS)}",
        value,
        some,
        random.choice([None, "1.25", "7.10"]),
    )


def cut(chunks: Sequence[Chunk], borders: Iterable[int]) -> list[Chunk]:
    """Neighbours put together; all rows of a run come before its watermarks."""
    joined, start = [], 0
    for end in [*borders, len(chunks)]:
        part = chunks[start:end]
        rows = {alias: [row for c in part for row in c.rows[alias]] for alias in part[0].rows}
        joined.append(Chunk(rows, {a: w for c in part for a, w in c.watermarks.items()}))
        start = end
    return joined


def folded(chunks: Sequence[Chunk], alias: str) -> Kept:
    """What is left: a retraction takes the oldest equal row."""
    kept: Kept = []
    for offset, (code, *data) in enumerate(row for c in chunks for row in c.rows[alias]):
        if code in (0, 3):
            kept.append((offset, *data))
        else:
            kept.remove(next(row for row in kept if list(row[1:]) == list(data)))
    return kept


def windows(size: timedelta, slide: timedelta) -> Callable[..., dict[Any, Kept]]:
    def grouped(rows: Kept, end: datetime) -> dict[Any, Kept]:
        groups: dict[Any, Kept] = {}
        for row in rows:
            start = t(0) + (row[1] - t(0)) // slide * slide
            while start + size > row[1]:
                if start + size <= end:
                    groups.setdefault((start, row[2]), []).append(row)
                start -= slide
        return groups

    return grouped


def sums(rows: dict[str, Kept], mark: dict[str, datetime]) -> Iterable[Row]:
    for (start, key), group in windows(6 * HOUR, 6 * HOUR)(rows["x"], mark["x"]).items():
        values = [row[3] for row in group if row[3] is not None]
        exact = [row[5] for row in group if row[5] is not None]
        yield (
            *(start, key, len(group), len(values), sum(values) if values else None),
            sum(values) / len(values) if values else None,
            sum(round(float(d) * 100) for d in exact) if exact else None,
        )


def extremes(rows: dict[str, Kept], mark: dict[str, datetime]) -> Iterable[Row]:
    for (start, key), group in windows(12 * HOUR, 4 * HOUR)(rows["x"], mark["x"]).items():
        values = [row[3] for row in group if row[3] is not None]
        floats = [row[4] for row in group if row[4] is not None]
        total = 0.0
        for each in sorted(floats, key=lambda f: (f != f, f)):  # NaN is the greatest
            total += each
        yield (
            *(start, key, min(values, default=None), max(values, default=None)),
            *(len(set(values)), _plain(total) if floats else None),
        )


def first_three(rows: dict[str, Kept], _: dict[str, datetime]) -> Iterable[Row]:
    by_key: dict[str, Kept] = {}
    for row in rows["x"]:
        by_key.setdefault(row[2], []).append(row)
    for key, group in by_key.items():
        best = sorted(group, key=lambda r: (r[3] is None, -(r[3] or 0), r[0]))
        for place, row in enumerate(best[:3], 1):
            yield (row[1], key, place, row[3])


def latest(rows: dict[str, Kept], _: dict[str, datetime]) -> Iterable[Row]:
    by_key: dict[str, Any] = {}
    for row in sorted(rows["x"], key=lambda r: (r[1], r[0])):
        by_key[row[2]] = row
    for key, row in by_key.items():
        yield (row[1], key, row[3])


def pairs(rows: dict[str, Kept], mark: dict[str, datetime]) -> Iterable[Row]:
    for left in rows["x"]:
        near = [
            r
            for r in rows["y"]
            if r[2] is not None
            and r[2] == left[2]
            and -2 * HOUR <= r[1] - left[1] <= 6 * HOUR
            and (r[3] or 0) < 4
        ]
        for right in near:
            yield (left[1], left[2], left[3], right[1], right[3])
        if not near and left[1] + 6 * HOUR < mark["y"]:
            yield (left[1], left[2], left[3], None, None)


def newest_before(rows: dict[str, Kept], mark: dict[str, datetime]) -> Iterable[Row]:
    for left in rows["x"]:
        if left[1] > min(mark.values()):
            continue
        before = [r for r in rows["y"] if r[2] is not None and r[2] == left[2] and r[1] <= left[1]]
        if before:
            right = max(before, key=lambda r: (r[1], r[0]))
            yield (left[1], left[2], left[3], right[3])


LATENESS = "/*+ LATENESS('30 days') */"
CASES: dict[str, tuple[str, Callable[..., Iterable[Row]]]] = {
    "sums": (
        (
            f"select {LATENESS} window(event_time, '6 hours').start as event_time, k, "
            "count(*) as n, count(v) as c, sum(v) as s, avg(v) as m, "
            "cast(sum(d) * 100 as bigint) as e from x group by window(event_time, '6 hours'), k"
        ),
        sums,
    ),
    "extremes": (
        (
            f"select {LATENESS} w.start as event_time, k, min(v) as lo, max(v) as hi, "
            "count(distinct v) as n, sum(f) as f "
            "from (select window(event_time, '12 hours', '4 hours') as w, * from x) group by w, k"
        ),
        extremes,
    ),
    "first three": (
        (
            f"select {LATENESS} event_time, k, place, v from (select *, row_number() over "
            "(partition by k order by v desc) as place from x) where place <= 3"
        ),
        first_three,
    ),
    "latest": (
        (
            f"select {LATENESS} event_time, k, v from x "
            "qualify row_number() over (partition by k order by event_time desc) = 1"
        ),
        latest,
    ),
    "pairs": (
        (
            f"select {LATENESS} x.event_time, x.k, x.v, y.event_time as at, y.v as other from x "
            "left join y on x.k = y.k and coalesce(y.v, 0) < 4 and y.event_time between "
            "x.event_time - interval 2 hours and x.event_time + interval 6 hours"
        ),
        pairs,
    ),
    "newest before": (
        (
            f"select {LATENESS} x.event_time, x.k, x.v, y.v as other from x asof join y "
            "match_condition (x.event_time >= y.event_time) on x.k = y.k"
        ),
        newest_before,
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_any_cut_folds_to_the_batch_query_over_what_is_left(
    name: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    query, batch = CASES[name]
    aliases = ["x", "y"] if name in ("pairs", "newest before") else ["x"]
    chunks = history(seed, aliases)
    last = {alias: c.watermarks[alias] for c in chunks for alias in c.watermarks}
    highest = {a: max(c.watermarks[a] for c in chunks if a in c.watermarks) for a in last}
    rows = {alias: folded(chunks, alias) for alias in aliases}
    expected = Counter(batch(rows, highest))
    assert expected
    for number, borders in enumerate(([1, 2], [])):
        folder = tmp_path / str(number)
        folder.mkdir()
        play = Play(spark, folder, query, dict.fromkeys(aliases, COLUMNS))
        for chunk in cut(chunks, borders):
            play.step(_typed(chunk), chunk.watermarks)
        play.all = [tuple(map(_plain, row)) for row in play.all]
        assert play.folded() == expected
        assert play.result.dropped.unmatched == 0


IN_SEVERAL_TASKS = tuple(CASES) if len(SEEDS) > 1 else ("first three",)
"""Windows and joins in one task and in several are compared elsewhere as well."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", IN_SEVERAL_TASKS)
def test_runs_in_one_task_and_in_several_emit_and_keep_the_same(
    name: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    query = CASES[name][0].replace("30 days", "2 hours")  # some changes come too late
    aliases = ["x", "y"] if name in ("pairs", "newest before") else ["x"]
    plays = []
    for partitions in (None, *PARTITIONS):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        columns = dict.fromkeys(aliases, COLUMNS)
        plays.append(Play(spark, folder, query, columns, partitions=partitions))
    one, *several = plays
    late = 0
    # At the end the watermarks leave all that is kept behind.
    nothing = Chunk({alias: [] for alias in aliases}, {})
    chunks = [*cut(history(seed, aliases), [2]), nothing]
    for chunk, hour in zip(chunks, (24, 48, 2_400), strict=True):
        rows, marks = _typed(chunk), dict.fromkeys(aliases, t(hour))
        told = repr(one.step(rows, marks))  # of which NaN is equal to itself
        assert one.state is not None
        for play in several:
            assert repr(play.step(rows, marks)) == told
            assert play.result == one.result
            assert play.state is not None
            assert play.state.read_bytes() == one.state.read_bytes()
        late += one.result.dropped.late + one.result.dropped.late_changes
    assert late or not any(chunks[1].rows.values())
    assert one.all


def _plain(value: Any) -> Any:
    """A value that is equal to itself."""
    return "NaN" if value != value else value


def _typed(chunk: Chunk) -> dict[str, list[Row]]:
    return {
        alias: [(*row[:-1], None if row[-1] is None else Decimal(row[-1])) for row in rows]
        for alias, rows in chunk.rows.items()
    }
