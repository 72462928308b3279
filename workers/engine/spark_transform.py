"""Transforms on Spark: views of the inputs, SQL steps, rows in the order of the inputs."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from protocol.metadata.transforms import Transform

from ..merge.columns import quoted
from .frames import read_parquet, written_batches
from .inputs import EngineInput
from .port import NotIncremental, not_incremental, steps_of
from .raw_query import check_is_query
from .spark_plan import check_repeatable, check_row_by_row, parts_of
from .transform import Computed, Work

SMALL_ROWS = 200_000
"""Up to so many input rows the result is collected; more pass through files."""


def compute(work: Work, session: SparkSession) -> Computed:
    """Rows of the query. `session` is of this request alone.

    Raises:
        InvalidQuery: the query is wrong, or may not run.
    """
    for item in work.inputs:
        register(session, item)
    result = analysed(session, work.transform)
    parts = parts_of(result)
    check_repeatable(parts)
    try:
        if work.transform.temporal_tables:
            raise not_incremental("temporal tables")
        check_row_by_row(parts)
    except NotIncremental:
        raise
    schema = to_arrow_schema(result.schema, timezone="UTC")
    return Computed(schema=schema, batches=_rows(result, work, grows="Generate" in parts))


def register(session: SparkSession, item: EngineInput) -> None:
    """The input as a view under its alias, whatever characters that has."""
    frame = read_parquet(session, [item.path], item.schema)
    frame.createTempView(quoted(item.alias))


def analysed(session: SparkSession, transform: Transform) -> DataFrame:
    """The frame of the last step, those before it being views. Raises `InvalidQuery`."""
    *named, last = steps_of(transform)
    for step in named:
        check_is_query(session, step.query)
        session.sql(step.query).createTempView(quoted(str(step.alias)))
    check_is_query(session, last.query)
    return session.sql(last.query)


def _rows(result: DataFrame, work: Work, *, grows: bool) -> Iterator[pa.RecordBatch]:
    count = sum(item.rows for item in work.inputs)
    if count == 0:
        return
    if count <= SMALL_ROWS and not grows:
        yield from result.toArrow().to_batches()
        return
    yield from written_batches(result, work.scratch)
