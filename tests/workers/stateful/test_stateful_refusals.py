"""Queries that cannot be kept up to date are refused with a reason and a way out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.workers.stateful.playing import Play

from odf_workers.engines.port.port import InvalidQuery, NotIncremental

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INPUTS = {alias: {"k": pa.string(), "v": pa.int32()} for alias in ("x", "y")}
DAILY = "select window(event_time, '1 day').start as event_time, {} from x group by 1"


def refusal(spark: SparkSession, folder: Path, query: str) -> InvalidQuery:
    with pytest.raises(InvalidQuery) as refused:
        Play(spark, folder, query, INPUTS)
    return refused.value


@pytest.mark.parametrize(
    ("query", "way_out"),
    [
        ("select k, count(*) as n from x group by k", "window(event_time"),
        ("select count(*) as n from x", "window(event_time"),
        (("select session_window.start as s, count(*) as n from x "
         "group by session_window(event_time, '5 minutes')"), "window"),
        ("select distinct k from x", "row_number()"),
        ("select k from x limit 3", "row_number()"),
        ("select k from x except select k from y", "LEFT JOIN"),
        ("select x.k from x join y on x.k = y.k", "BETWEEN"),
        ("select x.k from x join y on x.k = y.k and y.event_time <= x.event_time", "ASOF JOIN"),
        ("select x.k from x full join y on x.k = y.k and x.event_time = y.event_time", "union"),
        ("select x.k from x left semi join y on x.k = y.k and x.event_time = y.event_time", "LEFT"),
        (("select x.k from x left join y on x.k = y.k and x.event_time = y.event_time "
         "and x.v > 1"), "below the join"),
        (("select x.k from x asof join y match_condition (x.event_time < y.event_time) "
         "on x.k = y.k"), ">="),
        ("select k from x where v > (select max(v) from y)", "derivative"),
        ("select k from x where k in (select k from y)", "derivative"),
        ("select *, lag(v) over (partition by k order by event_time) as b from x", "row_number()"),
        ("select *, row_number() over (partition by k order by event_time) as n from x", "WHERE"),
        ("select * from x qualify rank() over (partition by k order by v) = 1", "row_number()"),
        (DAILY.format("first(v)"), "min_by"),
        (DAILY.format("stddev(v)"), "avg"),
        (DAILY.format("count_if(op = 0)"), "leave it out"),
        (DAILY.format("count(null) as n"), "give it a type by CAST"),
        ("select x.k from x join (values ('a')) as c(k) on x.k = c.k", "dataset"),
        (("select k, n from (select k, v as n, row_number() over (order by v) as p "
         "from (select k, v from (select v, max(k) as k, window(event_time, '1 day') as w "
         "from x group by v, window(event_time, '1 day')))) where p < 3"), "event time"),
        (DAILY.format("map(max(k), max(v)) as m"), "maps"),
        (DAILY.format("1 as op"), "leave it out"),
        (("select event_time, k, nil from (select *, null as nil from x) qualify row_number() "
         "over (partition by k order by event_time desc) = 1"), "CAST"),
    ],
)  # fmt: skip
def test_a_query_that_needs_all_rows_is_refused_with_a_way_out(
    query: str, way_out: str, spark: SparkSession, tmp_path: Path
) -> None:
    refused = refusal(spark, tmp_path, query)
    assert isinstance(refused, NotIncremental)
    assert way_out in refused.message


@pytest.mark.parametrize(
    "query",
    [
        "select * from nothing",
        "select nothing from x",
        "selec k from x",
        (
            "select /*+ LATENESS(3) */ k from x qualify row_number() "
            "over (partition by k order by event_time desc) = 1"
        ),
        (
            "select /*+ LATENESS('1 month') */ k from x qualify row_number() "
            "over (partition by k order by event_time desc) = 1"
        ),
        DAILY.format("count(*) as n, count(v) as n"),
    ],
)
def test_a_wrong_query_is_refused(query: str, spark: SparkSession, tmp_path: Path) -> None:
    assert not isinstance(refusal(spark, tmp_path, query), NotIncremental)


@pytest.mark.parametrize(
    "query",
    [
        "select op, event_time, k, v + 1 as v from x where v > 1",
        "select event_time, k from x union all select event_time, k from y",
        "select event_time, explode(split(k, ',')) as k from x order by event_time",
    ],
)
def test_a_query_row_by_row_needs_no_state(query: str, spark: SparkSession, tmp_path: Path) -> None:
    assert Play(spark, tmp_path, query, INPUTS).plan is None


def test_a_temporal_table_is_joined_by_its_primary_key(spark: SparkSession, tmp_path: Path) -> None:
    query = (
        "select x.event_time, y.v from x join y for system_time as of x.event_time on y.k = x.k"
    ).replace(" on ", " y on ")
    assert Play(spark, tmp_path, query, INPUTS, temporal={"y": ["k"]}).plan is not None
    with pytest.raises(NotIncremental, match="primary key"):
        Play(spark, tmp_path, query, INPUTS, temporal={"y": ["k", "v"]})


def test_an_as_of_join_is_taken_in_a_thread_that_made_no_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Jobs run in such threads; Spark 4.3 parses by the settings of the thread's active session."""
    query = (
        "select x.k from x asof join y match_condition (x.event_time >= y.event_time) on x.k = y.k"
    )
    with ThreadPoolExecutor(1) as other:
        other.submit(Play, spark, tmp_path, query, INPUTS).result()
