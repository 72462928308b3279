"""Every merge strategy gives the rows of the known answers, disputed ones as we want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from protocol.chain.state import Vocab
from protocol.codec.manifests import from_data
from protocol.metadata.reading import MergeStrategy
from tests.workers import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
_TYPES = {"op": pa.int32(), "city": pa.string(), "zone": pa.string(), "updated_at": pa.string()}


def frame(spark: SparkSession, table: dict[str, Any], *, numbered: bool) -> DataFrame:
    from workers.merge.columns import POSITION

    columns = {
        name: pa.array([row[at] for row in table["rows"]], _TYPES.get(name, pa.int64()))
        for at, name in enumerate(table["columns"])
    }
    if numbered:
        columns[POSITION] = pa.array(range(len(table["rows"])), pa.int64())
    return spark.createDataFrame(pa.table(columns))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in tables.cases("merge")])
def test_a_batch_merges_as_the_answer_says(case: dict[str, Any], spark: SparkSession) -> None:
    from workers.merge.columns import col
    from workers.merge.state import project
    from workers.merge.table import MERGE, merging_of

    given, expect = case["given"], case["expect"]["table"]
    strategy: MergeStrategy = from_data(given["strategy"], MergeStrategy)
    merging = merging_of(strategy, Vocab(event_time_column=given["vocab"]["event_time"]))
    prev = frame(spark, given["prev"], numbered=False) if given["prev"] else None
    if given["operation"] == "project":
        assert prev is not None
        result = project(merging, prev)
    else:
        rule = MERGE[type(strategy)]
        result = rule.merge(merging, prev, frame(spark, given["new"], numbered=True))
        result = result.orderBy(*[col(name).asc_nulls_first() for name in rule.order(merging)])
    rows = tables.rows_of(result.select(*[col(name) for name in expect["columns"]]).toArrow())
    wanted = expect["rows"]
    if case["expect"].get("ordered") is False:
        rows, wanted = sorted(rows), sorted(wanted)
    assert rows == wanted
    assert [n for n in result.columns if not n.startswith("odf ")] == expect["columns"]
