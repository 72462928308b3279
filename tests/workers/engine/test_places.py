"""A wrong query is refused with its place: which query of the transform, which line and column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.derivatives import START, node_of, root, transform
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import to_data
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInvalidQuery,
    SqlQueryStep,
    TransformSql,
)
from odf_storage.datasets.job_payloads.transform_job import CheckPayload
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.engines.port.port import (
    InvalidQuery,
    blamed_on,
    place_of,
    refuse_quoted_columns,
    said,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = "date_trunc('DAY', event_time) as event_time"
NO_SUCH_COLUMN = "select op,\n  event_time, nothing from cities"
BOTH = {
    "no query": (["drop table cities"], (1, 1)),
    "syntax": (["select op, event_time\n fro cities where"], (2, 6)),
    "unfinished text": (["select event_time, 'a\n from cities"], (1, 20)),
    "unknown column": ([NO_SUCH_COLUMN], (2, 15)),
    "unknown column of a later step": (
        ["select op, event_time, n from cities", "select event_time, m\n from step1"],
        (1, 20, 2),
    ),
    "syntax of an earlier step": (
        ["select op, event_time\n frm cities x y", "select event_time from step1"],
        (2, 6, 1, "step1"),
    ),
    "unknown input": (["select op, event_time, n from towns"], (1, 31)),
    "unknown function": (["select event_time,\n nofun(n) as m from cities"], (2, 2)),
    "function of the moment": (["select event_time, n,\n now() as x from cities"], (2, 2)),
    "function of chance, earlier": (
        ["select event_time, rand() as x\n from cities", "select event_time, x from step1"],
        (1, 20, 1, "step1"),
    ),
    "limit": (["select event_time, n\n from cities order by n\nlimit 3"], (3, 1)),
    "distinct": (["select\n distinct n, event_time from cities"], (2, 2)),
    "subquery": (["select event_time,\n (select max(n) from cities) as m from cities"], (2, 2)),
    "no event time": (["\n  select n from cities"], (2, 3)),
    "column of the system": (["select event_time, n as offset from cities"], (1, 25)),
    "column without a type": (["select event_time, null as x from cities"], (1, 28)),
}
"""Queries; line, column, number of the query and its name."""
ON_SPARK = {
    "total": (
        ["select event_time, sum(n) over (order by event_time) as s\n from cities"],
        (1, 27),
    ),
    "aggregate that depends on the order": (
        [f"select {DAY},\n median(n) as m from cities group by 1"],
        (2, 2),
    ),
    "groups without an end, earlier": (
        [
            "select city, max(event_time) as event_time\n from cities group by city",
            "select event_time, city from step1",
        ],
        (2, 14, 1, "step1"),
    ),
    "join without bounds": (
        ["select c.event_time, c.n\n from cities c join cities d on c.n < d.n"],
        (2, 16),
    ),
    "column in double quotes": (['select event_time, -- "n"\n "City" as x from cities'], (2, 2)),
    "column in double quotes, earlier": (
        ['select *, n = "city" as x from cities', "select event_time, x from step1"],
        (1, 15, 1, "step1"),
    ),
    "second lateness": (
        [
            "select /*+ LATENESS('1 day') */ * from cities",
            f"select /*+ LATENESS('2 days') */ {DAY}, max(n) as n from step1 group by 1",
        ],
        (1, 12, 1, "step1"),
    ),
}


def refused(bench: Any, stores: Any, engine: str, queries: list[str]) -> InvalidQuery:
    from odf_workers.jobs.transform.check import run_check

    cities = root(stores, "cities")
    definition = to_data(transform([cities], *queries, engine=engine))
    with pytest.raises(InvalidQuery) as caught:
        run_check(stores, CheckPayload(definition=definition), bench, now=START)
    return caught.value


def facts(*place: Any) -> dict[str, Any]:
    return dict(zip(("line", "column", "query", "queryAlias"), place, strict=False))


@pytest.mark.parametrize("name", BOTH)
def test_datafusion_refuses_with_the_place(name: str, tmp_path: Path) -> None:
    queries, place = BOTH[name]
    stores = throwaway_stores()
    bad = refused(node_of(stores, tmp_path), stores, "datafusion", queries)
    assert bad.facts == facts(*place), bad.message
    told = "has to be the same whenever and wherever" in bad.message
    assert told == name.startswith("function of"), bad.message


def on_spark(stores: Any, scratch: Path, spark: SparkSession) -> Any:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    bench = node_of(stores, scratch)
    return replace(bench, engines=replace(bench.engines, first=SparkEngine(spark)))


@pytest.mark.spark
def test_spark_refuses_with_the_place(spark: SparkSession, tmp_path: Path) -> None:

    found = {}
    for name, (queries, _) in {**BOTH, **ON_SPARK}.items():
        stores = throwaway_stores()
        bench = on_spark(stores, tmp_path, spark)
        found[name] = refused(bench, stores, "spark", queries).facts
    assert found == {name: facts(*place) for name, (_, place) in {**BOTH, **ON_SPARK}.items()}


@pytest.mark.spark
def test_the_plan_of_spark_is_left_out_of_the_reason(spark: SparkSession, tmp_path: Path) -> None:

    stores = throwaway_stores()
    bench = on_spark(stores, tmp_path, spark)
    message = refused(bench, stores, "spark", [NO_SUCH_COLUMN]).message
    assert message.startswith("line 2, column 15: the query names a column `nothing`")
    assert "The engine says: [UNRESOLVED_COLUMN" in message
    assert "SubqueryAlias" not in message


PREPROCESSING: dict[str, tuple[list[str], tuple[Any, ...]]] = {
    "no query": (["drop table input"], (1, 1)),
    "syntax": (["select n\n fro input where"], (2, 6)),
    "unknown column": (["select n,\n nothing from input"], (2, 2)),
    "unknown column of a later step": (["select n from input", "select\n m from step1"], (2, 2, 2)),
    "unknown column of an earlier step": (
        ["select n,\n m from input", "select n from step1"],
        (2, 2, 1, "step1"),
    ),
    "unknown function": (["select n,\n nofun(n) as m from input"], (2, 2)),
}
"""Queries over the rows of a source, which have a column `n`."""


@pytest.mark.spark
def test_wrong_preprocessing_is_refused_with_the_place(spark: SparkSession, tmp_path: Path) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    for engine in (SparkEngine(spark), DataFusionEngine()):
        found = {}
        for name, (queries, _) in PREPROCESSING.items():
            *named, last = queries
            steps = [SqlQueryStep(alias=f"step{n}", query=q) for n, q in enumerate(named, 1)]
            request = RawQueryRequest(
                input_data_paths=(str(path),),
                transform=TransformSql(queries=(*steps, SqlQueryStep(query=last)), engine="any"),
                output_data_path=str(tmp_path / "out.parquet"),
            )
            response = engine.execute_raw_query(request)
            assert isinstance(response, RawQueryResponseInvalidQuery), response
            found[name] = place_of(response.message)
        assert found == {name: facts(*place) for name, (_, place) in PREPROCESSING.items()}


@pytest.mark.parametrize(
    "query",
    [
        'select \'n\', `n`, "nn", n -- "n"\n from cities /* "n" */',
        """select 'it''s "n"', "a \\" n" from cities""",
    ],
)
def test_texts_that_are_no_columns_may_be_in_double_quotes(query: str) -> None:
    refuse_quoted_columns([SqlQueryStep(query=query)], {"n"})


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("[PARSE] Syntax error. (line 2, pos 5)", (2, 6)),
        ("cannot be resolved; line 2 pos 13;", (2, 14)),
        ("[DIVIDE_BY_ZERO] …\n== SQL (line 1, position 8) ==", (1, 8)),
        ("unexpected token at Line: 3, Column: 9", (3, 9)),
        ("line 4, column 2: it is wrong", (4, 2)),
        ("query 2, line 4, column 2: it is wrong", (4, 2, 2)),
        ("query 1 (`a b`), line 4, column 2: it is wrong", (4, 2, 1, "a b")),
        ("something is wrong in line 12 of nowhere", ()),
    ],
)
def test_places_are_read_from_what_engines_say(message: str, place: tuple[Any, ...]) -> None:
    assert place_of(message) == facts(*place)


def test_a_place_survives_the_way_through_a_message() -> None:
    steps = [SqlQueryStep(alias="one", query="select 1"), SqlQueryStep(query="\n  select x")]
    for number in (0, 1):
        with pytest.raises(InvalidQuery) as caught, blamed_on(steps, number):
            raise InvalidQuery("something is wrong")
        assert place_of(said(caught.value)) == caught.value.facts


def test_what_stands_in_texts_and_comments_is_not_meant() -> None:
    steps = [SqlQueryStep(query="select 'join' -- join\n from a /* join */\n Join b")]
    with pytest.raises(InvalidQuery) as caught, blamed_on(steps):
        raise InvalidQuery("the query has a join, whose rows depend on others")
    assert caught.value.facts == {"line": 3, "column": 2}


def test_a_derivative_for_spark_is_warned_of_times_of_day() -> None:
    from odf_workers.jobs.transform.check import spark_hints

    steps = [SqlQueryStep(query="select event_time, t from cities")]
    units = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    schemas = [pa.schema([("n", pa.int64()), ("t", unit)]) for unit in units]
    for each in schemas:
        (said,) = spark_hints(steps, [each])
        assert "`t`" in said
        assert "`n`" not in said
        assert "Int64" in said
    assert spark_hints(steps, [pa.schema([("n", pa.int64())])]) == ()


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            "select city frm a",
            'SQL error: ParserError("Expected: end of statement, found: a at Line: 1, Column: 17")',
            "; `frm`: did you mean FROM?",
        ),
        (
            "selec city from a",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. (line 1, pos 0)",
            "; `selec`: did you mean SELECT?",
        ),
        (
            "select cty from a",
            "Schema error: No field named cty. Valid fields are a.offset, a.city.",
            " Did you mean city?",
        ),
        ("select x from a", "Schema error: No field named x. Valid fields are a.city.", ""),
        ("select city", "Schema error: No field named city.", ""),
    ],
)
def test_what_was_probably_meant_stands_behind_the_words_of_the_engine(query, message, hint):
    with pytest.raises(InvalidQuery) as refused, blamed_on([SqlQueryStep(query=query)], 0):
        raise InvalidQuery(message)
    assert refused.value.message == message + hint
