"""Run a transform on Spark: SQL steps over views of the inputs, rows in the order of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.metadata.transforms import SqlQueryStep

from ..iteration.inputs import EngineInput
from ..iteration.transform import Computed, Work
from ..port.port import ORDER_OF_CHANGES, ROW, ROW_BITS, InvalidQuery, NotIncremental, steps_of
from ..port.positions import blamed_on
from ..spark.allowed import TRANSFORM
from ..spark.catalyst import Catalyst
from ..spark.columns import quoted
from ..spark.frames import read_parquet, written_batches
from ..spark.implicit_times import has_constant_moment, has_literal_moment, without_today
from ..spark.plan import check_repeatable, check_row_by_row, not_repeatable
from ..spark.query import judged
from ..stateful import Plan
from ..stateful.text import as_of_joins
from .rows import analysed, in_total_order, with_rows
from .state import Plans, compute_with_state, plan_with_state

SMALL_ROWS = 200_000
"""Limit of input rows for which the result is collected in memory; more rows pass through files."""


def compute(work: Work, session: SparkSession, plans: Plans) -> Computed:
    """Compute the rows of the query. `session` is for `TRANSFORM`, and no other request uses it;
    `plans` is the engine's cache.

    Raises:
        InvalidQuery: the query is wrong, or may not run.
    """
    steps = steps_of(work.transform)
    if (known := plans.taken(work, session)) is not None:
        with blamed_on(steps):
            return _with_state(work, known, plans)
    changes = any(item.has_changes for item in work.inputs)
    for at, item in enumerate(work.inputs):
        register(session, item, at if changes else None)
    result, parts = _last(session, work, steps)
    catalyst = Catalyst(session)
    with blamed_on(steps):
        check_repeatable(parts)
        if has_constant_moment(catalyst, catalyst.plan(result)):
            raise not_repeatable("the time of day as a text")
    try:
        check_row_by_row(parts)
    except NotIncremental:
        with blamed_on(steps):
            if (plan := plan_with_state(work, session)) is None:
                raise
            return _with_state(work, plan, plans)
    if "ToTimestamp" in parts:
        with blamed_on(steps):
            plan = without_today(catalyst, catalyst.plan(result), steps)
        result = catalyst.frame(plan)
    has_operations = work.vocab.operation_type_column in result.columns
    with blamed_on(steps):
        result = _prepared(catalyst, result, parts, follows=changes and has_operations)
    return Computed(
        schema=to_arrow_schema(result.schema, timezone="UTC"),
        batches=_rows(result, work, grows="Generate" in parts),
    )


def _with_state(work: Work, plan: Plan, plans: Plans) -> Computed:
    computed = compute_with_state(work, plan)
    plans.put_back(work, plan)
    return computed


def register(session: SparkSession, item: EngineInput, number: int | None = None) -> None:
    """Create a view of the input under its alias, which may contain any characters.

    With a number, the rows also have the column `ROW`, which the view hides from queries; a plan
    can pass it along.
    """
    frame = read_parquet(session, [item.path], item.schema)
    if number is not None:
        offset = quoted(item.vocab.offset_column)
        numbered = frame.selectExpr("*", f"{offset} + {number << ROW_BITS} as {quoted(ROW)}")
        frame = numbered.drop(ROW)
    frame.createTempView(quoted(item.alias))


def _last(
    session: SparkSession, work: Work, steps: Sequence[SqlQueryStep]
) -> tuple[DataFrame, frozenset[str]]:
    """Return the frame and parts of the last step; earlier steps become views. Raise
    `InvalidQuery`."""
    event_times = {item.alias: item.vocab.event_time_column for item in work.inputs}
    for number, step in enumerate(steps):
        with blamed_on(steps, number):
            frame, parts = _checked(session, as_of_joins(step.query, event_times))
        if number < len(steps) - 1:
            frame.createTempView(quoted(str(step.alias)))
    return frame, parts


def _checked(session: SparkSession, query: str) -> tuple[DataFrame, frozenset[str]]:
    if has_literal_moment(query):
        raise not_repeatable("the time of day as a literal")
    return judged(session, query, TRANSFORM)


def _prepared(
    catalyst: Catalyst, result: DataFrame, parts: frozenset[str], *, follows: bool
) -> DataFrame:
    """Return the query with a total order if it sorts, or with `ROW` if it `follows` changes."""
    if "Sort" not in parts and not follows:
        return result
    plan = analysed(catalyst, result, parts)
    if "Sort" not in parts:
        return with_rows(catalyst, plan)
    if follows:
        raise InvalidQuery(ORDER_OF_CHANGES)
    return in_total_order(catalyst, plan)


def _rows(result: DataFrame, work: Work, *, grows: bool) -> Iterator[pa.RecordBatch]:
    count = sum(item.rows for item in work.inputs)
    if count == 0:
        return
    if count <= SMALL_ROWS and not grows:
        yield from result.toArrow().to_batches()
        return
    yield from written_batches(result, work.scratch)
