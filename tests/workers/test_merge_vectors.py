"""Every merge strategy gives the rows of the known answers, disputed ones as we want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.metadata.reading import MergeStrategy
from tests.workers import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def texts_of(given: dict[str, Any]) -> set[str]:
    """Columns that hold text in either table; the format declares no types."""
    return {
        name
        for table in (given.get("prev"), given.get("new"))
        for row in (table["rows"] if table else ())
        for name, value in zip(table["columns"], row, strict=True)
        if isinstance(value, str)
    }


def frame(
    spark: SparkSession, table: dict[str, Any], texts: set[str], *, numbered: bool
) -> DataFrame:
    from odf_node.workers.slices.columns import POSITION

    types = {"op": pa.int32(), **dict.fromkeys(texts, pa.string())}
    columns = {
        name: pa.array([row[at] for row in table["rows"]], types.get(name, pa.int64()))
        for at, name in enumerate(table["columns"])
    }
    if numbered:
        columns[POSITION] = pa.array(range(len(table["rows"])), pa.int64())
    return spark.createDataFrame(pa.table(columns))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in tables.cases("merge")])
def test_a_batch_merges_as_the_answer_says(case: dict[str, Any], spark: SparkSession) -> None:
    from odf_node.workers.slices.columns import CannotMerge

    if "error" in case["expect"]:
        with pytest.raises(CannotMerge):
            check(case, spark)
        return
    check(case, spark)


def check(case: dict[str, Any], spark: SparkSession) -> None:
    from odf_node.workers.merge.state import project
    from odf_node.workers.merge.table import MERGE, merging_of
    from odf_node.workers.slices.columns import PROBLEM, CannotMerge, col

    given = case["given"]
    strategy: MergeStrategy = from_data(given["strategy"], MergeStrategy)
    merging = merging_of(strategy, Vocab(event_time_column=given["vocab"]["event_time"]))
    texts = texts_of(given)
    prev = frame(spark, given["prev"], texts, numbered=False) if given["prev"] else None
    if given["operation"] == "project":
        assert prev is not None
        result = project(merging, prev)
    else:
        rule = MERGE[type(strategy)]
        result = rule.merge(merging, prev, frame(spark, given["new"], texts, numbered=True))
        result = result.orderBy(*[col(name).asc_nulls_first() for name in rule.order(merging)])
    table = result.toArrow()
    if PROBLEM in table.column_names:
        for problem in table.column(PROBLEM).drop_null():
            raise CannotMerge(problem.as_py())
    expect = case["expect"]["table"]
    rows = tables.rows_of(table.select(expect["columns"]))
    wanted = expect["rows"]
    if case["expect"].get("ordered") is False:
        rows, wanted = sorted(rows, key=str), sorted(wanted, key=str)
    assert rows == wanted
    assert [n for n in result.columns if not n.startswith("odf ")] == expect["columns"]
