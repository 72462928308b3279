"""Queries that are too long to be planned: Spark is not even asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInvalidQuery,
    SqlQueryStep,
    TransformSql,
)
from odf_workers.engines.spark_engine.engine import SparkEngine


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        (
            "select " + "+".join(["n"] * 20_000) + " as m from input",
            "terms long; 3000",
        ),
        (
            "select " + "(" * 101 + "n" + ")" * 101 + " from input",
            "101 brackets deep; 100",
        ),
        (f"select '{'x' * 300_000}' as x from input", "ODF_WORKER_MAX_QUERY_BYTES"),
    ],
)
def test_a_query_that_is_too_long_or_too_deep_is_refused_before_spark_sees_it(
    query: str, limit: str, tmp_path: Path
) -> None:
    engine = SparkEngine(None)  # type: ignore[arg-type]
    request = RawQueryRequest(
        input_data_paths=(str(tmp_path / "input.parquet"),),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query=query),)),
        output_data_path=str(tmp_path / "output.parquet"),
    )
    response = engine.execute_raw_query(request)
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert limit in response.message
