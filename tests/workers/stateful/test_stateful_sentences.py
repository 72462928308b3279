"""What each form does with late rows, retractions, ties and watermarks, and how long it waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.workers.stateful.playing import Play, t

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SALES = {"shop": pa.string(), "amount": pa.int32()}
DAILY = (
    "select /*+ LATENESS('2 days') */ window(event_time, '1 day').start as event_time, shop, "
    "sum(amount) as total from sales group by window(event_time, '1 day'), shop"
)
A, R, C, C_TO = 0, 1, 2, 3
WHAT = "select event_time,"
SALES_BY_KEY = {"k": pa.string(), "v": pa.int32()}


def test_a_window_waits_for_the_watermark_then_late_rows_correct_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    play = Play(spark, tmp_path, DAILY, {"sales": SALES})
    rows = [(A, t("01-01T10"), "x", 1), (A, t("01-01T11"), "x", 2), (A, t("01-01T12"), "y", 5)]
    assert play.step({"sales": rows}, {"sales": t("01-01T23")}) == []
    # Behind the watermark, but the window is open. Then the watermark alone ends it.
    assert play.step({"sales": [(A, t("01-01T01"), "x", 4)]}) == []
    assert play.step({}, {"sales": t("01-02")}) == [
        (A, t("01-01"), "x", 7),
        (A, t("01-01"), "y", 5),
    ]
    changes = [
        (A, t("01-01T13"), "x", 10),
        (R, t("01-01T12"), "y", 5),
        (R, t("01-01T12"), "nobody", 5),
    ]
    told = play.step({"sales": changes}, {"sales": t("01-04")})
    assert told == [
        (C, t("01-01"), "x", 7),
        (C_TO, t("01-01"), "x", 17),
        (R, t("01-01"), "y", 5),
    ]
    assert (play.result.dropped.late, play.result.dropped.unmatched) == (0, 1)
    # Two days after its end a window is forgotten.
    late = [(A, t("01-01T14"), "x", 1), (C, t("01-01T10"), "x", 1), (C_TO, t("01-01T10"), "x", 2)]
    assert play.step({"sales": late}) == []
    assert (play.result.dropped.late, play.result.dropped.late_changes) == (2, 1)
    assert play.result.state_rows == 0


def test_of_equal_times_the_newest_row_is_the_latest_and_of_equal_scores_the_oldest_the_best(
    spark: SparkSession, tmp_path: Path
) -> None:
    over = "qualify row_number() over (partition by k order by"
    query = [
        ("latest", f"select * from s {over} event_time desc) = 1"),
        ("best", f"select * from s {over} v desc) = 1"),
        (None, f"{WHAT} 'latest' as what, n from latest union all {WHAT} 'best', n from best"),
    ]
    columns = {"k": pa.string(), "v": pa.int32(), "n": pa.int32()}
    play = Play(spark, tmp_path, query, {"s": columns})
    rows = [(A, t("01-01"), "a", 7, 1), (A, t("01-01"), "a", 7, 2)]
    assert play.step({"s": rows}) == [(A, t("01-01"), "best", 1), (A, t("01-01"), "latest", 2)]
    told = play.step({"s": [(R, *rows[0][1:])]})
    assert told == [(C, t("01-01"), "best", 1), (C_TO, t("01-01"), "best", 2)]


def test_a_ranking_keeps_recent_rows_and_the_best_of_the_old(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = (
        "select /*+ LATENESS('1 day') */ event_time, shop, amount from (select *, row_number() "
        "over (partition by shop order by amount desc) as place from sales) where place <= 2"
    )
    play = Play(spark, tmp_path, query, {"sales": SALES})
    rows = [(A, t(hour), "x", hour) for hour in range(10)]
    play.step({"sales": rows}, {"sales": t("01-02")})
    assert play.result.state_rows == 10
    assert play.step({}, {"sales": t("01-09")}) == []
    assert play.result.state_rows == 2
    told = play.step({"sales": [(A, t("01-09"), "x", 100), (R, t(9), "x", 9)]})
    assert [row[0] for row in told] == [C, C_TO]
    assert play.result.dropped.late_changes == 1


def test_joins_let_rows_go_when_no_partner_can_come_or_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {"k": pa.string()}
    query = (
        "select /*+ LATENESS('1 day') */ l.event_time, l.k, r.event_time as seen from l left join "
        "r on l.k = r.k and r.event_time between l.event_time and l.event_time + interval 1 day"
    )
    play = Play(spark, tmp_path, query, {"l": columns, "r": columns})
    rows = {
        "l": [(A, t("01-01"), "a"), (A, t("01-02"), "b")],
        "r": [(A, t("01-01T05"), "a"), (A, t("01-01T06"), "c")],
    }
    assert play.step(rows, {"l": t("01-02")}) == [(A, t("01-01"), "a", t("01-01T05"))]
    assert play.result.watermark is None
    assert play.step({}, {"r": t("01-03T01")}) == [(A, t("01-02"), "b", None)]
    # A partner after all: what was said is corrected.
    told = play.step({"r": [(A, t("01-02T12"), "b")]}, {"l": t("01-10"), "r": t("01-10")})
    assert told == [(C, t("01-02"), "b", None), (C_TO, t("01-02"), "b", t("01-02T12"))]
    assert str(play.result.watermark) == "2000-01-09T00:00:00Z"
    assert play.result.state_rows == 0


def test_an_as_of_join_keeps_the_newest_row_of_each_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = (
        "select /*+ LATENESS('1 day') */ l.event_time, l.k, r.v from l left asof join r "
        "match_condition (l.event_time >= r.event_time) on l.k = r.k"
    )
    play = Play(spark, tmp_path, query, {"l": {"k": pa.string()}, "r": SALES_BY_KEY})
    rows = {
        "l": [(A, t("01-05"), "a"), (A, t("01-05"), "b")],
        "r": [(A, t("01-01"), "a", 1), (A, t("01-02"), "a", 2), (A, t("01-03"), "a", 3)],
    }
    assert play.step(rows, {"l": t("01-05")}) == []
    told = play.step({}, {"r": t("01-05")})
    assert told == [(A, t("01-05"), "a", 3), (A, t("01-05"), "b", None)]
    assert play.step({"r": [(A, t("01-04T12"), "a", 4)]}) == [
        (C, t("01-05"), "a", 3),
        (C_TO, t("01-05"), "a", 4),
    ]
    play.step({}, {"l": t("01-20"), "r": t("01-20")})
    assert play.result.state_rows == 1
    told = play.step({"l": [(A, t("01-20"), "a")]})
    assert told == [(A, t("01-20"), "a", 4)]


def test_results_and_state_do_not_depend_on_partitions(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"k": pa.string(), "f": pa.float64()}
    joined = (
        "select l.event_time, l.k, l.f, r.f as g from l left join r on l.k = r.k and r.event_time "
        "between l.event_time - interval 1 hour and l.event_time + interval 1 hour"
    )
    sums = (
        "select window(event_time, '6 hours').start as event_time, k, sum(f) as f, avg(g) as g, "
        "count(*) as n from joined group by window(event_time, '6 hours'), k"
    )
    query = [("joined", joined), (None, sums)]
    values = [0.1, 1e17, 0.3, -1e17, 0.7, 1e-9]
    rows = [(A, t(n % 24), "ab"[n % 2], values[n % 6]) for n in range(60)]
    told, states = [], []
    for partitions in (None, 1, 2, 8):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        play = Play(spark, folder, query, {"l": columns, "r": columns}, partitions=partitions)
        right = [*rows[10:50], (R, *rows[12][1:])]
        play.step({"l": rows, "r": right}, {"l": t(20), "r": t(18)})
        assert play.state is not None
        told.append(play.all)
        states.append(play.state.read_bytes())
    assert all(each == told[0] for each in told)
    assert len(told[0]) >= 4
    assert all(each == states[0] for each in states)


def test_large_runs_are_computed_in_many_tasks_and_say_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.engines.stateful import state as context

    query = DAILY.replace("1 day", "6 hours").replace("sum(amount)", "max(amount)")
    rows = [(A, t(n % 20), "abc"[n % 3], n % 7) for n in range(40)]
    told, states = [], []
    for limits in ({}, {"FEW_ROWS": -1}, {"SMALL_ROWS": -1}):
        for name, limit in limits.items():
            monkeypatch.setattr(context, name, limit)
        folder = tmp_path / "-".join(["few", *limits])
        folder.mkdir()
        play = Play(spark, folder, query, {"sales": SALES})
        play.step({"sales": [*rows, (R, *rows[3][1:])]}, {"sales": t(13)})
        assert play.state is not None
        told.append(play.all)
        states.append(play.state.read_bytes())
    assert told[0] == told[1] == told[2]
    assert states[0] == states[1] == states[2]


def test_operation_and_system_columns_are_at_hand(spark: SparkSession, tmp_path: Path) -> None:
    latest = (
        "select op, event_time, shop, amount, offset + 1 as next from some qualify row_number() "
        "over (partition by shop order by event_time desc, offset desc) = 1"
    )
    some = "select op, offset, event_time, shop, amount from sales where amount > 1"
    query = [("some", some), (None, latest)]
    play = Play(spark, tmp_path, query, {"sales": SALES})
    rows = [(A, t(1), "x", 5), (A, t(1), "x", 1), (A, t(1), "x", 6)]
    assert play.step({"sales": rows}) == [(A, t(1), "x", 6, 3)]
    # A correction that the filter lets only half through.
    told = play.step({"sales": [(C, t(1), "x", 6), (C_TO, t(1), "x", 1)]})
    assert told == [(C, t(1), "x", 6, 3), (C_TO, t(1), "x", 5, 1)]


def test_row_by_row_parts_stand_between_and_calendar_days_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = (
        "with words as (select event_time, explode(split(shop, ' ')) as word, amount from sales), "
        "days as (select /*+ LATENESS('0 days') */ cast(event_time as date) as day, word, "
        "count(*) filter (where amount > 1) as n, max(amount) as most from words "
        "group by cast(event_time as date), word having count(*) > 1) "
        "select cast(day as timestamp) as event_time, upper(word) as word, n, most + 1 as m "
        "from days"
    )
    play = Play(spark, tmp_path, query, {"sales": SALES})
    rows = [(A, t(1), "a b", 1), (A, t(2), "b c", 2), (A, t(23), "a", 7), (A, t(25), "c c", 9)]
    told = play.step({"sales": [*rows, (R, *rows[0][1:]), rows[0]]}, {"sales": t(24)})
    assert told == [(A, t(0), "A", 1, 8), (A, t(0), "B", 1, 3)]
    late = [(A, t(3), "c", 2), (A, t(25), "d", 1)]
    assert play.step({"sales": late}, {"sales": t(48)}) == [(A, t(24), "C", 2, 10)]
    assert play.result.dropped.late == 1


def test_a_count_of_a_constant_counts_it_as_a_column_of_it_would(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = (
        "select window(event_time, '1 day').start as event_time, shop, count(1) as every, "
        "count(cast(null as int)) as none, count(cast(null as int), amount) as neither, "
        "{distinct}sum(amount) as total "
        "from sales group by window(event_time, '1 day'), shop"
    )
    rows = [(A, t("01-01T10"), "x", 1), (A, t("01-01T11"), "x", 2)]
    sums = Play(spark, tmp_path, query.format(distinct=""), {"sales": SALES})
    assert sums.step({"sales": rows}, {"sales": t("01-02")}) == [(A, t("01-01"), "x", 2, 0, 0, 3)]
    kept = query.format(
        distinct="count(distinct 1) as one, count(distinct cast(null as int)) as no, "
    )
    from_rows = Play(spark, tmp_path, kept, {"sales": SALES})
    told = from_rows.step({"sales": rows}, {"sales": t("01-02")})
    assert told == [(A, t("01-01"), "x", 2, 0, 0, 1, 0, 3)]
