"""Rows said to be the result of a query that no engine can run: replays find them invented.

A refusal that another version or another node might not share proves nothing.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.workers.derivatives import add_rows, derivative, moment, node_of, root, transform
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.metadata.events import SetTransform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import EngineNote, write_note
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_workers.jobs.transform import sql_grammar
from odf_workers.jobs.transform.never_runs import _defined
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.verify.run import run_verification
from odf_workers.jobs.work.context import Engines

NOON = "2024-01-01T12:00:00Z"
ENGINES = ["datafusion", pytest.param("spark", marks=pytest.mark.spark)]
NOWHERE = [
    "select event_time, nosuch as n from cities",
    "select event_time, c.nosuch as n from cities as c",
    "select event_time, d.n from cities as c",
    "select event_time, n from cities where `no such.name` > 1",
    "select event_time, n from nosuch",
    "hello world",
    "",
    "selekt event_time, n from cities",
    "select event_time n n n from cities",
    "select 'abc",
    "drop table cities",
]
PERHAPS_ELSEWHERE = [
    "select event_time, newer_function(n) as n from cities",
    "select event_time, N from cities",
    "select event_time, current_fortnight as n from cities",
    "select event_time, sum(n) as n from cities group by event_time",
    "select event_time, n, row_number() over (order by n) as r from cities",
]


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture(params=ENGINES)
def engine(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def bench(stores: Stores, engine: str, tmp_path: Path, request: Any) -> Any:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    made = node_of(stores, tmp_path)
    if engine == "datafusion":
        return made
    spark = request.getfixturevalue("spark_of_the_run")
    return dataclasses.replace(made, engines=Engines(session=spark, first=SparkEngine(spark)))


@pytest.fixture
def made(stores: Stores, bench: Any, engine: str, tmp_path: Path) -> Dataset:
    source = root(stores, "cities")
    add_rows(stores, source, [(NOON, "a", 1)] * 2, tmp_path, at=10, watermark=NOON)
    made = derivative(
        stores, "tenfold", [source], "select event_time, n * 10 as n from cities", engine=engine
    )
    assert run_transform(stores, made, TransformPayload(), bench, now=moment(100)).outcome
    return made


def received_with(stores: Stores, dataset: Dataset, query: str, engine: str | None = None) -> None:
    """The same rows as another node sends them, as the result of another query."""
    first, *later = dataset.blocks()
    reset(stores, dataset.entry, target=first.hash)
    for block in later:
        event: Any = block.event
        if isinstance(event, SetTransform):
            named = engine or event.transform.engine
            event = replace(event, transform=transform([], query, engine=named).transform)
        made, _ = author(dataset.state(), [event], system_time=block.block.system_time)
        dataset.commit(made, expected=dataset.head())
    write_note(stores.objects, dataset.id, EngineNote())


def verdict(stores: Stores, dataset: Dataset, bench: Any) -> tuple[bool, str]:
    answer = run_verification(stores, dataset, VerifyPayload(), bench, now=moment(900))
    [execution] = answer.datasets[0].report["dataBlocks"]
    return answer.ok, execution["replay"]


def test_rows_of_a_query_that_runs_nowhere_are_invented(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    for query in NOWHERE:
        received_with(stores, made, query)
        assert (query, *verdict(stores, made, bench)) == (query, False, "not-reproduced")


def test_rows_of_a_query_that_may_run_elsewhere_are_not_verifiable(
    stores: Stores, made: Dataset, bench: Any, engine: str
) -> None:
    more = {
        "datafusion": ["select event_time, n as b, b + 1 as n from cities"],
        "spark": ["select event_time, n from cities |> where n > nosuch"],
    }
    for query in [*PERHAPS_ELSEWHERE, *more[engine]][: None if engine == "datafusion" else 3]:
        received_with(stores, made, query)
        assert (query, *verdict(stores, made, bench)) == (query, True, "not-verifiable")


def test_an_engine_that_is_not_here_proves_nothing(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    received_with(stores, made, "select event_time, nosuch from cities", "flink")
    assert verdict(stores, made, bench) == (True, "not-verifiable")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select nosuch as n, m from x", {"n"}),
        ("select a b, 'c' d, f(e) g, 1 h from i as j", {"b", "d", "g", "h", "j"}),
        ("with k as (select 1) select case when l then m end n from o p", {"k", "n", "p"}),
        ("select filter(q, r -> r > s), t(u, (v, w) -> v) from x", {"r", "v", "w"}),
        ('select "Ä B" "Ö", `ü` `ß` from x -- y z', {"ö", "ss"}),
    ],
)
def test_names_that_a_query_may_define_are_found(query: str, names: set[str]) -> None:
    words = {"select", "from", "as", "when", "then", "end", "(", ",", ")"}
    assert set(_defined(query)) - words == names


@pytest.mark.parametrize("query", [*NOWHERE[5:], "select (((((", "select rows were invented"])
def test_what_no_dialect_takes_is_no_query(query: str) -> None:
    assert not sql_grammar.is_query(query)


@pytest.mark.parametrize(
    "query",
    [
        *NOWHERE[:5],
        "from x select y",
        "select n from x |> where n > 1",
        "select x.* except (y) from x tablesample (10 rows)",
        "with recursive a as (select 1 union all select 2) select * from a",
        "select array(1, 2)[0], transform(a, x -> x + 1) from b lateral view explode(c) d as e",
    ],
)
def test_what_any_dialect_takes_may_be_a_query(query: str) -> None:
    assert sql_grammar.is_query(query)
