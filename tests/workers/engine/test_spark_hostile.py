"""Strangers' SQL on Spark: what it tries is refused alike in preprocessing and in transforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.workers.engine.changes import APPEND, CITIES, cities
from tests.workers.engine.hostile_spark import HOSTILE, ODD
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    TransformResponseInvalidQuery,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SECRET = "canary-of-a-file-nobody-reads"
ROWS = cities((APPEND, "a", 1))


@pytest.fixture
def engine(spark: SparkSession) -> Any:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    return SparkEngine(spark, seconds=60)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return path


def preprocessed(engine: Any, folder: Path, query: str) -> Any:
    pq.write_table(ROWS, folder / "in.parquet")
    return engine.execute_raw_query(
        RawQueryRequest(
            input_data_paths=(str(folder / "in.parquet"),),
            transform=sql(query),
            output_data_path=str(folder / "out.parquet"),
        )
    )


def transformed(engine: Any, folder: Path, query: str) -> Any:
    derivative = Derivative(
        engine=engine, folder=folder, transform=sql(query), schemas={"input": CITIES}
    )
    return derivative.run({"input": ROWS})


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_is_refused_in_both_uses_and_tells_nothing(
    query: str, engine: Any, secret: Path, tmp_path: Path
) -> None:
    text = query.format(file=secret)
    for response, refused in (
        (preprocessed(engine, tmp_path, text), RawQueryResponseInvalidQuery),
        (transformed(engine, tmp_path, text), TransformResponseInvalidQuery),
    ):
        assert isinstance(response, refused), response
        assert response.message
        assert SECRET not in response.message
        assert str(Path.home()) not in response.message.replace(str(tmp_path), "")
    assert secret.read_text() == SECRET


@pytest.mark.parametrize("query", ODD)
def test_an_odd_query_knows_only_its_input(
    query: str, engine: Any, secret: Path, tmp_path: Path
) -> None:
    text = query.format(file=secret)
    told = [preprocessed(engine, tmp_path, text), transformed(engine, tmp_path / "t", text)]
    made = [path for path in tmp_path.rglob("*") if path.name in ("out.parquet", "data")]
    told += [pq.read_table(path).to_pylist() for path in made]
    assert SECRET not in str(told)
    assert str(Path.home()) + "/" not in str(told).replace(str(tmp_path), "")


REFUSED_FUNCTIONS = frozenset(
    """
    collations current_user from_avro from_protobuf from_xml input_file_block_length
    input_file_block_start input_file_name java_method measure python_worker_logs reflect
    schema_of_avro schema_of_xml session_user sql_keywords to_avro to_protobuf try_reflect user
    """.split()  # noqa: SIM905 - as words they stay readable
)
"""Looked at, and refused: code, files, names of the machine, or what only lists."""


def test_somebody_has_looked_at_every_function_that_spark_has(spark: SparkSession) -> None:
    from odf_workers.engines.spark.allowed import PREPROCESS

    state = spark._jsparkSession.sessionState()
    known: set[str] = set()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        names = str(registry.listFunction().mkString(" ")).split(" ")
        known.update(name.rsplit(".", 1)[-1] for name in names)
    assert known - PREPROCESS.functions == REFUSED_FUNCTIONS


def test_a_session_for_queries_has_the_functions_that_are_allowed_and_no_other(
    spark: SparkSession,
) -> None:
    from odf_workers.engines.spark.allowed import PREPROCESS, TRANSFORM
    from odf_workers.engines.spark.plan import SparkSessions

    sessions = SparkSessions(spark)
    for allowed in (PREPROCESS, TRANSFORM):
        state = sessions.of(allowed)._jsparkSession.sessionState()
        for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
            names = str(registry.listFunction().mkString(" ")).split(" ")
            assert {name.rsplit(".", 1)[-1] for name in names} <= allowed.functions


def test_an_allowed_function_is_judged_by_a_class_that_is_allowed(spark: SparkSession) -> None:
    """Or by a builder, which makes one of several."""
    from odf_workers.engines.spark.allowed import PREPROCESS

    registry = spark._jsparkSession.sessionState().functionRegistry()
    known = registry.listFunction()
    wrong: dict[str, str] = {}
    for at in range(known.size()):
        info = registry.lookupFunction(known.apply(at)).get()
        made = str(info.getClassName()).rsplit(".", 1)[-1]
        if info.getName() in PREPROCESS.functions and not made.endswith("Builder"):
            wrong |= {info.getName(): made} if made not in PREPROCESS.expressions else {}
    assert wrong == {}


def test_what_is_evaluated_while_a_query_is_analysed_knows_no_moment(
    engine: Any, tmp_path: Path
) -> None:
    schema = "case when now() > timestamp'2020-01-01' then 'a int' else 'b int' end"
    query = f"select event_time, from_json(city, {schema}) as x from input"
    response = transformed(engine, tmp_path, query)
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert "the function now is not available" in response.message


def test_an_expression_that_no_function_makes_is_judged_in_the_plan(
    engine: Any, tmp_path: Path
) -> None:
    response = preprocessed(engine, tmp_path, "select current_user as x from input")
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert "current_user is not available" in response.message


def test_a_command_behind_a_with_does_not_run(engine: Any, tmp_path: Path) -> None:
    target = tmp_path / "written"
    write = f"insert overwrite directory '{target}' using text select 'x'"
    response = preprocessed(engine, tmp_path, f"with t as (select 1) {write}")
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert not target.exists()


def test_a_moment_by_its_keyword_is_not_in_a_transform(engine: Any, tmp_path: Path) -> None:
    response = transformed(engine, tmp_path, "select event_time, current_date as x from input")
    assert isinstance(response, TransformResponseInvalidQuery), response
    assert isinstance(
        preprocessed(engine, tmp_path, "select current_date as x from input"),
        RawQueryResponseSuccess,
    )
