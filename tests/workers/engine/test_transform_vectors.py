"""Known answers for iterations of derivatives, on every engine that can express them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.engine.requests import Derivative
from tests.workers.tables import cases, rows_of, table_from

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetVocabulary,
    OffsetInterval,
    SqlQueryStep,
    TemporalTable,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
    TransformSql,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDS_STATE = {"window", "as-of", "streaming"}
CASES = cases("transform")
ROW_BY_ROW = [case for case in CASES if not NEEDS_STATE & set(case["tags"])]


def portable(case: dict[str, Any], engine: str) -> bool:
    return bool(case["given"]["portable_sql"] or case["given"]["transform"]["engine"] == engine)


def vocabulary(given: dict[str, str]) -> DatasetVocabulary:
    names = {
        "offsetColumn": "offset_column",
        "operationTypeColumn": "operation_type_column",
        "systemTimeColumn": "system_time_column",
        "eventTimeColumn": "event_time_column",
    }
    return DatasetVocabulary(**{names[key]: name for key, name in given.items()})


def transform_of(given: dict[str, Any], engine: str) -> TransformSql:
    """The transform of a case, for another engine than the one it names."""
    queries = given.get("queries") or [{"query": given["query"]}]
    return TransformSql(
        engine=engine,
        queries=tuple(SqlQueryStep(alias=s.get("alias"), query=s["query"]) for s in queries),
        temporal_tables=tuple(
            TemporalTable(name=table["name"], primary_key=tuple(table["primaryKey"]))
            for table in given.get("temporalTables", ())
        )
        or None,
    )


def check(case: dict[str, Any], engine: Any, folder: Path) -> None:
    given = case["given"]
    inputs = {item["alias"]: item for item in given["inputs"]}
    derivative = Derivative(
        engine=engine,
        folder=folder,
        transform=transform_of(given["transform"], engine.name),
        schemas={alias: table_from(item["schema"], []).schema for alias, item in inputs.items()},
        vocab=vocabulary(given.get("vocab", {})),
        vocabs={alias: vocabulary(item.get("vocab", {})) for alias, item in inputs.items()},
    )
    for each in case["rounds"]:
        found = each["inputs"]
        tables = {
            alias: table_from(inputs[alias]["schema"], value["rows"])
            for alias, value in found.items()
        }
        marks = {
            alias: [Instant.parse(text) for text in value.get("watermarks", ())]
            for alias, value in found.items()
        }
        intervals = {
            alias: tuple(value["offset_interval"])
            for alias, value in found.items()
            if value.get("offset_interval")
        }
        derivative.next_offset = each.get("next_offset", derivative.next_offset)
        response = derivative.run(
            tables,
            marks,
            intervals=intervals,
            system_time=Instant.parse(each["system_time"]),
        )
        expect = each["expect"]
        if "error" in expect:
            assert isinstance(response, TransformResponseInvalidQuery), response
            assert expect["error"].get("contains", "") in response.message
            return
        assert isinstance(response, TransformResponseSuccess), response
        if "new_watermark" in expect:
            mark = response.new_watermark
            assert (mark and str(mark)) == expect["new_watermark"]
        table = pq.read_table(derivative.data)
        if "schema" in expect:
            assert table.schema.equals(table_from(expect["schema"], []).schema)
        if "new_data" in expect:
            check_rows(expect, table, response.new_offset_interval)


def check_rows(expect: dict[str, Any], found: pa.Table, interval: OffsetInterval | None) -> None:
    wanted = expect["new_data"]
    if wanted is None:
        assert found.num_rows == 0
        return
    if "offset" in wanted["columns"]:
        assert (interval and [interval.start, interval.end]) == expect["offset_interval"]
        assert found.column_names == wanted["columns"]
    rows = rows_of(found.select(wanted["columns"]))
    if expect.get("ordered", True):
        assert rows == wanted["rows"]
    else:
        assert sorted(rows, key=str) == sorted(wanted["rows"], key=str)


@pytest.mark.spark
class TestSpark:
    @pytest.mark.parametrize(
        "case", [c for c in CASES if portable(c, "spark")], ids=lambda case: case["id"]
    )
    def test_known_answer(self, case: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
        from odf_workers.engines.spark_engine.engine import SparkEngine

        check(case, SparkEngine(spark), tmp_path)


class TestDataFusion:
    @pytest.mark.parametrize(
        "case", [c for c in ROW_BY_ROW if portable(c, "datafusion")], ids=lambda case: case["id"]
    )
    def test_known_answer(self, case: dict[str, Any], tmp_path: Path) -> None:
        from odf_workers.engines.datafusion.engine import DataFusionEngine

        check(case, DataFusionEngine(), tmp_path)
