"""Queries on Spark reach nothing but their inputs, and end."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sparks import alive
from tests.workers.engine.changes import APPEND, CITIES, NOW_IS, RETRACT, WAS, cities, listed
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import TransformResponseInvalidQuery, TransformResponseSuccess
from odf_workers.engines.port.port import EngineListener

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from odf_workers.engines.spark.session import SparkWhenNeeded

pytestmark = pytest.mark.spark
WINDOWED = (
    "select window(event_time, '1 day').start as event_time, {} as x "
    "from cities group by window(event_time, '1 day')"
)

FALLING_BACK = (
    "from_json(city, 't timestamp', "
    "map('timestampFormat', 'y', 'EnableDateTimeParsingFallback', 'true'))"
)


def answer(spark: SparkSession, folder: Path, query: str, **engine: Any) -> Any:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    derivative = Derivative(
        engine=SparkEngine(spark, **engine),
        folder=folder,
        transform=sql(query),
        schemas={"cities": CITIES},
    )
    return derivative.run({"cities": cities((APPEND, "a", 1))})


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp'now'",
        "date 'today'",
        "timestamp /* the */ 'yesterday'",
        "cast('now' as timestamp)",
        "to_date('tomorrow')",
        "to_timestamp('now')",
        "cast('n' || 'ow' as timestamp)",
        "try_cast(lower('TODAY') as date)",
        "hour(trim(' now '))",
        "timestamp '\\u006eow'",
        "timestamp '12:30'",
        "unix_timestamp()",
        "curdate()",
        "current_user",
        "session_user",
        "current_database()",
        "current_timezone()",
        "rand()",
        "randn(1)",
        "randstr(3)",
        "uniform(1, 5)",
        "shuffle(array(1, 2))",
        "monotonically_increasing_id()",
        "spark_partition_id()",
        "input_file_name()",
        "aes_encrypt(city, '0000111122223333')",
        "reflect('java.lang.System', 'getProperty', 'user.home')",
        "try_reflect('java.lang.System', 'getProperty', 'user.home')",
        "java_method('java.util.UUID', 'randomUUID')",
        "from_xml(city, 'a int', map('rowValidationXSDPath', '/etc/passwd'))",
        "schema_of_xml('<a/>')",
    ],
)
def test_what_differs_from_run_to_run_or_reaches_outside_is_refused(
    expression: str, spark: SparkSession, tmp_path: Path
) -> None:
    response = answer(spark, tmp_path, f"select event_time, {expression} as x from cities")
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert "not available" in response.message or "another result" in response.message


@pytest.mark.parametrize(
    "query",
    [
        "select /*+ REPARTITION(3) */ event_time from cities",
        "select event_time from cities distribute by n",
        "select event_time from cities sort by n",
        "select event_time from cities tablesample (50 percent)",
        "select transform(n) using 'cat' as (event_time timestamp) from cities",
        "select event_time from parquet.`/etc`",
        "select event_time from (select event_time from cities order by n)",
        "set spark.sql.ansi.enabled = false",
        "refresh table cities",
        "cache table cities",
        "explain select event_time from cities",
        "describe cities",
        "begin select 1; end",
        "create temporary function f as 'java.lang.String'",
        "add jar '/tmp/x.jar'",
    ],
)
def test_how_rows_are_spread_and_other_statements_are_none_of_a_querys_business(
    query: str, spark: SparkSession, tmp_path: Path
) -> None:
    response = answer(spark, tmp_path, query)
    assert isinstance(response, TransformResponseInvalidQuery), response


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("upper('ıi')", "II"),
        ("date_format(timestamp'2020-03-01 12:00:00', 'MMMM EEEE')", "March Sunday"),
        ("cast(timestamp'2020-01-01 00:00:00' as string)", "2020-01-01 00:00:00"),
        ("'now'", "now"),
        ("case when city <> 'a date' then \"\\\\d\" else 'date' end", "\\d"),
        ("case when date '2020-01-01' > '2019-01-01' then 'timestamp' end", "timestamp"),
    ],
)
def test_zone_and_language_are_fixed(
    expression: str, value: str, spark: SparkSession, tmp_path: Path
) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    derivative = Derivative(
        engine=SparkEngine(spark),
        folder=tmp_path,
        transform=sql(f"select event_time, {expression} as x from cities"),
        schemas={"cities": CITIES},
    )
    assert isinstance(
        derivative.run({"cities": cities((APPEND, "a", 1))}), TransformResponseSuccess
    )
    assert derivative.table()["x"].to_pylist() == [value]


@pytest.mark.parametrize(
    "expression",
    ["cast(city as int)", "n / 0", "cast(n + 9223372036854775807 as bigint)", "array(1)[5]"],
)
def test_wrong_values_are_errors_not_nulls(
    expression: str, spark: SparkSession, tmp_path: Path
) -> None:
    response = answer(spark, tmp_path, f"select event_time, {expression} as x from cities")
    assert isinstance(response, TransformResponseInvalidQuery)


@pytest.mark.parametrize(
    "queries",
    [
        ["select event_time, try_cast(n || ':30' as timestamp) as x from cities"],
        ["select event_time, try_to_timestamp(n || ':30') as x from cities", "select * from s0"],
        [WINDOWED.format("max(try_cast(n || ':30' as timestamp))")],
    ],
)
def test_a_time_without_a_date_does_not_get_that_of_the_day_it_is_computed(
    queries: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    derivative = Derivative(
        engine=SparkEngine(spark),
        folder=tmp_path,
        transform=sql(*queries),
        schemas={"cities": CITIES},
    )
    mark = {"cities": [Instant.parse("2024-01-01T00:00:00Z")]}
    response = derivative.run({"cities": cities((APPEND, "a", 1))}, mark)
    assert isinstance(response, TransformResponseSuccess), response
    assert derivative.table()["x"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("from_json(city, 'a array<struct<t timestamp>>')", "timestampFormat"),
        (FALLING_BACK, "timestampFormat"),
        ("from_csv(city, 't timestamp', map('dateFormat', 'y'))", "timestampFormat"),
        ("variant_get(parse_json(city), '$.t', 'timestamp')", "variant_get"),
        ("try_variant_get(parse_json(city), '$', 'struct<t timestamp>')", "variant_get"),
        ("parse_json(city):t::timestamp", "plain text"),
        ("try_cast(split(city, ',') as array<timestamp>)", "plain text"),
        ("cast(struct(n, city) as struct<n int, t timestamp>)", "plain text"),
        ("map(n, city)::map<int, timestamp>", "plain text"),
        ("coalesce(array(event_time), array(city))", "plain text"),
        ("try_to_timestamp(collate(city, 'UTF8_LCASE'))", "plain text"),
        ("cast(from_csv(city, 't time').t as timestamp_ntz)", "plain text"),
    ],
)
def test_a_time_read_out_of_what_may_have_no_date_is_refused_where_it_is_written(
    expression: str, named: str, spark: SparkSession
) -> None:
    from odf_workers.engines.port.port import InvalidQuery
    from odf_workers.engines.spark.catalyst import Catalyst
    from odf_workers.engines.spark.limit import without_today
    from odf_workers.engines.spark.plan import parts_of

    transform = sql(
        "select timestamp_millis(id) as event_time, id as n, cast(id as string) as city "
        "from range(1)",
        f"select event_time,\n {expression} as x from s0",
    )
    first, second = transform.queries
    session = spark.newSession()
    session.sql(first.query).createTempView("s0")
    frame = session.sql(second.query)
    catalyst = Catalyst(session)
    assert "ToTimestamp" in parts_of(frame)
    with pytest.raises(InvalidQuery, match=named) as refused:
        without_today(catalyst, catalyst.plan(frame), transform.queries)
    assert refused.value.facts["query"] == 2
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (2, 2)


@pytest.mark.parametrize(
    "query", ["select event_time, {} as x from cities", WINDOWED.replace("{}", "max({})")]
)
def test_queries_with_and_without_state_are_refused_such_times(
    query: str, spark: SparkSession, tmp_path: Path
) -> None:
    response = answer(spark, tmp_path, query.format("from_json(city, 't timestamp').t"))
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert "the function from_json reads a timestamp without a format" in response.message
    assert "line 1, column" in response.message


def test_times_with_a_format_or_a_date_of_their_own_are_read_out_of_texts(
    spark: SparkSession, tmp_path: Path
) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    derivative = Derivative(
        engine=SparkEngine(spark),
        folder=tmp_path,
        transform=sql(
            "select event_time, "
            "from_json('{\"t\":\"12:30\"}', 't timestamp', map('TimestampFormat', 'H:m')).t as a, "
            "from_json('{\"t\":\"12:30\"}', 't timestamp', map('timestampFormat', 'y')).t as b, "
            "from_csv('12:30', 't timestamp_ntz').t as c, "
            "try_variant_get(parse_json('[\"12:30\"]'), '$[0]', 'date') as d, "
            "transform(split('1999-12-31,12:30', ','), t -> try_cast(t as timestamp)) as e "
            "from cities"
        ),
        schemas={"cities": CITIES},
    )
    response = derivative.run({"cities": cities((APPEND, "a", 1))})
    assert isinstance(response, TransformResponseSuccess), response
    row = derivative.table().select(list("abcde")).to_pylist()[0]
    assert [str(row["a"]), row["b"], row["c"], row["d"]] == [
        "1970-01-01 12:30:00+00:00",
        None,
        None,
        None,
    ]
    assert [None if at is None else str(at.date()) for at in row["e"]] == ["1999-12-31", None]


def test_queries_do_not_see_the_environment_of_the_worker(
    spark: SparkSession, tmp_path: Path
) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    query = "select event_time, '${env:PATH} ${system:user.home} ${spark.app.id}' as x from cities"
    derivative = Derivative(
        engine=SparkEngine(spark), folder=tmp_path, transform=sql(query), schemas={"cities": CITIES}
    )
    with ThreadPoolExecutor(1) as other:  # as in a worker: Spark was not started in this thread
        response = other.submit(derivative.run, {"cities": cities((APPEND, "a", 1))}).result()
    assert isinstance(response, TransformResponseSuccess), response
    assert derivative.table()["x"].to_pylist() == [
        "${env:PATH} ${system:user.home} ${spark.app.id}"
    ]


def test_a_document_type_outside_of_the_rows_is_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as asked:
        asked.settimeout(0)
        where = f"http://127.0.0.1:{asked.getsockname()[1]}/a.dtd"
        document = f'<!DOCTYPE a SYSTEM "{where}"><a>1</a>'
        query = f"select event_time, xpath_string('{document}', 'a') as x from cities"
        response = answer(spark, tmp_path, query)
        assert isinstance(response, TransformResponseInvalidQuery), response
        assert "External DTD" in response.message
        with pytest.raises(BlockingIOError):
            asked.accept()


@pytest.mark.parametrize("expression", ["format_string('%d', city)", "xpath(city, 'a')"])
def test_rows_that_java_takes_exception_to_are_told_by_what_it_says(
    expression: str, spark: SparkSession, tmp_path: Path
) -> None:
    response = answer(spark, tmp_path, f"select event_time, {expression} as x from cities")
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert "d != " in response.message or "prolog" in response.message


def test_a_query_that_takes_too_long_is_cancelled(
    spark: SparkSession, spark_of_the_run: SparkWhenNeeded, tmp_path: Path
) -> None:
    many = "select event_time, explode(sequence(1, 100000)) as x from cities"
    endless = f"select event_time, x, explode(sequence(1, 100000)) as y from ({many})"
    began = time.monotonic()
    response = answer(
        spark,
        tmp_path / "long",
        f"select event_time, x from ({endless}) where length(sha2(cast(x * y as string), 512)) < 0",
        seconds=3.0,
    )
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert "within 3 seconds" in response.message
    assert time.monotonic() - began < 200  # of centuries
    again = answer(alive(spark_of_the_run), tmp_path / "next", "select event_time from cities")
    assert isinstance(again, TransformResponseSuccess)


def test_a_query_nobody_waits_for_any_more_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    class Leaving(EngineListener):
        def stops(self, stop: Callable[[], None]) -> None:
            stop()

    many = "select event_time, explode(sequence(1, 100000)) as x from cities"
    endless = f"select event_time, x, explode(sequence(1, 100000)) as y from ({many})"
    derivative = Derivative(
        engine=SparkEngine(spark),
        folder=tmp_path,
        transform=sql(
            f"select event_time, x from ({endless})"
            " where length(sha2(cast(x * y as string), 512)) < 0"
        ),
        schemas={"cities": CITIES},
    )
    response = derivative.run({"cities": cities((APPEND, "a", 1))}, listener=Leaving())
    assert isinstance(response, TransformResponseInvalidQuery), response


def test_unpivot_is_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    derivative = Derivative(
        engine=SparkEngine(spark),
        folder=tmp_path,
        transform=sql(
            "select op, event_time, k, v from "
            "(select * from cities unpivot (v for k in (n as `number`, offset as `place`)))"
        ),
        schemas={"cities": CITIES},
    )
    response = derivative.run({"cities": cities((WAS, "a", 1), (NOW_IS, "a", 2))})
    assert isinstance(response, TransformResponseSuccess), response
    assert listed(derivative.table(), "op", "k", "v") == [
        (RETRACT, "number", 1),
        (WAS, "place", 0),
        (NOW_IS, "number", 2),
        (APPEND, "place", 1),
    ]


@pytest.mark.parametrize("moment", ["now()", "current_date", "cast('now' as timestamp)"])
def test_queries_that_keep_state_may_not_depend_on_the_moment_either(
    moment: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = (
        "select date_trunc('DAY', event_time) as event_time, city, count(*) as c, "
        f"max({moment}) as x from cities group by date_trunc('DAY', event_time), city"
    )
    response = answer(spark, tmp_path, query)
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert "not available" in response.message


def test_temporal_joins_are_computed_with_state(spark: SparkSession, tmp_path: Path) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    derivative = Derivative(
        engine=SparkEngine(spark),
        folder=tmp_path,
        transform=sql(
            "select l.event_time, l.city, r.n from cities l "
            "join `the.rates` for system_time as of l.event_time r on r.city = l.city"
        ),
        schemas={"cities": CITIES, "the.rates": CITIES},
    )
    rows = cities((APPEND, "a", 1), (APPEND, "a", 2))
    mark = Instant.parse("2024-01-01T00:00:00Z")
    response = derivative.run(
        {"cities": rows, "the.rates": rows}, {"cities": [mark], "the.rates": [mark]}
    )
    assert isinstance(response, TransformResponseSuccess), response
    assert derivative.table()["n"].to_pylist() == [1, 2]
    assert derivative.checkpoint is not None
    first, again = derivative.data.read_bytes(), derivative.run({}, {})
    assert isinstance(again, TransformResponseSuccess)
    assert again.new_watermark == response.new_watermark
    assert first != derivative.data.read_bytes()
