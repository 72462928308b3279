"""Queries with state are planned at their first iteration here, not at every one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.workers.engine.requests import SYSTEM, Derivative, sql

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import TransformResponseInvalidQuery, TransformResponseSuccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LATEST = (
    "select event_time, v, 12 / v as part from x "
    "qualify row_number() over (partition by v order by event_time desc) = 1"
)


def table(schema: pa.Schema, offset: int, value: int) -> pa.Table:
    at = Instant.parse("2024-04-01T00:00:00Z").millis + offset
    return pa.table([[offset], [0], [at], [at], [value]], names=schema.names).cast(schema)


def test_a_query_is_planned_once_unless_its_inputs_change_or_its_run_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.engines.spark_engine import transform as spark_state
    from odf_workers.engines.spark_engine.engine import SparkEngine

    planned = []
    original = spark_state.stateful_plan

    def plan(*arguments: Any) -> Any:
        planned.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(spark_state, "stateful_plan", plan)
    engine = SparkEngine(spark)
    schemas = [pa.schema([*SYSTEM, pa.field("v", kind)]) for kind in (pa.int32(), pa.int64())]
    narrow, wide = (
        Derivative(
            engine=engine,
            folder=tmp_path / str(schema.field("v").type),
            transform=sql(LATEST),
            schemas={"x": schema},
        )
        for schema in schemas
    )
    for offset in range(2):
        assert isinstance(narrow.run({"x": table(schemas[0], offset, 3)}), TransformResponseSuccess)
    assert len(planned) == 1
    assert narrow.table().column("part").to_pylist() == [4.0, 4.0]
    assert isinstance(wide.run({"x": table(schemas[1], 0, 4)}), TransformResponseSuccess)
    assert len(planned) == 2
    refused = narrow.run({"x": table(schemas[0], 2, 0)})
    assert isinstance(refused, TransformResponseInvalidQuery)
    assert "DIVIDE_BY_ZERO" in refused.message or "by zero" in refused.message
    assert isinstance(narrow.run({"x": table(schemas[0], 2, 2)}), TransformResponseSuccess)
    assert len(planned) == 3


def test_two_runs_of_a_query_at_once_have_a_plan_each(spark: SparkSession) -> None:
    from odf_workers.engines.spark_engine.transform import KEPT_PLANS, Plans

    class Asked:
        """As much of a work and of a plan as is looked at."""

        inputs = ()
        vocab = None

        def __init__(self, transform: str) -> None:
            self.transform = transform
            self.catalyst: Any = self
            self.session = spark

    plans: Any = Plans()
    asked, plan = Asked("query"), Asked("plan")
    plans.put_back(asked, plan)
    assert plans.taken(asked, spark) is plan
    assert plans.taken(asked, spark) is None
    for number in range(KEPT_PLANS + 1):
        plans.put_back(Asked(str(number)), plan)
    assert plans.taken(Asked("0"), spark) is None
    assert plans.taken(Asked("1"), spark) is plan
