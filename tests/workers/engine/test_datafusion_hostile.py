"""Strangers' SQL on DataFusion: refused or ended, alike in preprocessing and in transforms."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.workers.engine.changes import APPEND, CITIES, cities
from tests.workers.engine.hostile_datafusion import BOMBS, HOSTILE, ODD
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
)
from odf_workers.engines.datafusion.engine import DataFusionEngine, DataFusionLimits
from odf_workers.engines.datafusion.plan import AGGREGATES, FUNCTIONS, MOMENTS, REFUSED, WINDOWS

SECRET = "canary-of-a-file-nobody-reads"
CANARY = "canary-of-the-environment"
ROWS = cities((APPEND, "a", 1))
LITTLE = DataFusionLimits(
    seconds=0.6, cpu_seconds=20, pool_bytes=16 << 20, process_bytes=128 << 20, output_bytes=1 << 20
)


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", CANARY)
        patch.setenv("ODF_STORE_SECRETS_KEYS", CANARY)
        patch.setenv("ODF_STORE_DATABASE_URL", f"postgresql://node:{CANARY}@127.0.0.1/node")
        patch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
        yield


@pytest.fixture(scope="module")
def engine(environment: None) -> Any:
    return DataFusionEngine(DataFusionLimits(seconds=60, process_bytes=1 << 30))


@pytest.fixture(scope="module")
def little(environment: None) -> Any:
    """With little time and memory, so that queries that take all of it take little."""
    return DataFusionEngine(LITTLE)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text(f"column_1\n{SECRET}\n")
    return path


def preprocessed(engine: Any, folder: Path, query: str) -> Any:
    pq.write_table(ROWS, folder / "in.parquet")
    return engine.execute_raw_query(
        RawQueryRequest(
            input_data_paths=(str(folder / "in.parquet"),),
            transform=sql(query, engine="datafusion"),
            output_data_path=str(folder / "out.parquet"),
        )
    )


def transformed(engine: Any, folder: Path, query: str) -> Any:
    derivative = Derivative(
        engine=engine,
        folder=folder,
        transform=sql(query, engine="datafusion"),
        schemas={"input": CITIES},
    )
    return derivative.run({"input": ROWS})


def written(query: str, secret: Path) -> str:
    return query.format(file=secret, folder=secret.parent) if "{" in query else query


def tells_nothing(told: object) -> bool:
    return SECRET not in str(told) and CANARY not in str(told)


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_is_refused_in_both_uses_and_tells_nothing(
    query: str, engine: Any, secret: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = written(query, secret)
    with caplog.at_level(logging.DEBUG):
        for response, refused in (
            (preprocessed(engine, tmp_path, text), RawQueryResponseInvalidQuery),
            (transformed(engine, tmp_path, text), TransformResponseInvalidQuery),
        ):
            assert isinstance(response, refused), response
            assert response.message
            assert tells_nothing(response)
    assert tells_nothing(caplog.text)
    assert not list(tmp_path.rglob("stolen*"))
    assert SECRET in secret.read_text()


@pytest.mark.parametrize("query", BOMBS, ids=lambda query: query[:60])
def test_a_query_that_would_take_everything_ends_within_its_limits(
    query: str, little: Any, secret: Path, tmp_path: Path
) -> None:
    response = preprocessed(little, tmp_path, written(query, secret))
    if isinstance(response, RawQueryResponseInternalError):
        assert "its process was ended" in response.message or "panic" in response.message
    elif isinstance(response, RawQueryResponseInvalidQuery):
        assert response.message
    else:
        assert isinstance(response, RawQueryResponseSuccess)
        assert (tmp_path / "out.parquet").stat().st_size < 2 * LITTLE.output_bytes
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("spill")] == []


def test_after_all_of_them_the_next_query_is_answered(little: Any, tmp_path: Path) -> None:
    slow = DataFusionEngine(DataFusionLimits(seconds=60))
    response = preprocessed(slow, tmp_path, "select city from input")
    assert response == RawQueryResponseSuccess(num_records=1)


@pytest.mark.parametrize("query", ODD)
def test_an_odd_query_knows_only_its_input(
    query: str, engine: Any, secret: Path, tmp_path: Path
) -> None:
    text = written(query, secret)
    told = [preprocessed(engine, tmp_path, text), transformed(engine, tmp_path / "t", text)]
    made = [path for path in tmp_path.rglob("*") if path.name in ("out.parquet", "data")]
    told += [pq.read_table(path).to_pylist() for path in made]
    assert not [
        each
        for each in told
        if isinstance(each, RawQueryResponseInternalError | TransformResponseInternalError)
    ]
    assert tells_nothing(told)


@pytest.mark.parametrize(
    "query",
    [
        "select event_time from input where n in (select n from input)",
        "select event_time from input i where exists (select 1 from input j where i.n = j.n)",
        "select event_time, (select max(n) from input) as x from input",
        "select event_time from input where n = any(select n from input)",
        "select event_time, row_number() over (order by n) as x from input",
        "select distinct event_time from input order by event_time limit 5",
        "select a.event_time from input a left join input b on a.n = b.n and a.city >= b.city",
        "select event_time, value from input, generate_series(1, 3)",
        (
            "with recursive t as (select 1 as a union all select a + 1 from t where a < 3) "
            "select now() as event_time, a from t"
        ),
        "select event_time, random() < 2 as x, now() as y, uuid() as z from input",
        "select event_time from input intersect select event_time from input",
    ],
)
def test_what_relates_rows_to_each_other_preprocesses_and_is_no_transform(
    query: str, engine: Any, tmp_path: Path
) -> None:
    response = preprocessed(engine, tmp_path, query)
    assert isinstance(response, RawQueryResponseSuccess), response
    refused = transformed(engine, tmp_path / "t", query)
    assert isinstance(refused, TransformResponseInvalidQuery), refused


def test_what_is_usual_is_possible_in_both_uses(engine: Any, tmp_path: Path) -> None:
    query = (
        "select event_time, case when n > 1 then upper(city) || '-' else trim(city) end as c, "
        "unnest([n, n + 1]) as n, {'k': city} as s, cast(n as varchar) like '1%' as l, "
        "n between 1 and 2 as b, n in (1, 2) as i, coalesce(city, 'x') as y, n is null as z, "
        "date_trunc('day', event_time) as d, extract(year from event_time) as year, -n as m, "
        "regexp_replace(city, 'a', 'b') as r, array_to_string([city, city], ',') as a "
        "from input where not (n < 0) and city is not null"
    )
    response = preprocessed(engine, tmp_path, query)
    assert response == RawQueryResponseSuccess(num_records=2), response
    assert isinstance(transformed(engine, tmp_path / "t", query), TransformResponseSuccess)


def test_somebody_has_looked_at_every_function_that_datafusion_has() -> None:
    from datafusion import SessionContext

    context = SessionContext()
    assert set(context.udfs()) - FUNCTIONS - MOMENTS == REFUSED
    assert set(context.udafs()) <= AGGREGATES
    assert set(context.udwfs()) <= WINDOWS
