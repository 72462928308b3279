"""Raw queries on Spark: SQL steps over one input, for preprocessing.

Strangers write the queries, so a query may only read its input; `spark/allowed.py` lists the parts
that it may use.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
)

from ..port.port import INPUT, InvalidQuery, steps_of
from ..port.positions import blamed_on, said
from ..spark.allowed import PREPROCESS
from ..spark.columns import quoted
from ..spark.frames import read_parquet, written_batches
from ..spark.query import judged


def run_raw_query(request: RawQueryRequest, session: SparkSession) -> RawQueryResponse:
    """Run a raw query. `session` is for `PREPROCESS`, and no other request uses it."""
    output = Path(request.output_data_path)
    try:
        result = _query(request, session)
        with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
            count = _write(written_batches(result, Path(scratch)), result, output)
    except InvalidQuery as bad:
        return RawQueryResponseInvalidQuery(message=said(bad))
    return RawQueryResponseSuccess(num_records=count)


def _query(request: RawQueryRequest, session: SparkSession) -> DataFrame:
    paths = [Path(path) for path in request.input_data_paths]
    schema = pq.read_schema(paths[0])
    read_parquet(session, paths, schema).createTempView(INPUT)
    steps = steps_of(request.transform)
    for number, step in enumerate(steps):
        with blamed_on(steps, number):
            result, _ = judged(session, step.query, PREPROCESS)
        if number < len(steps) - 1:
            result.createTempView(quoted(str(step.alias)))
    return in_stable_order(result)


def in_stable_order(result: DataFrame) -> DataFrame:
    """Return the frame with rows in a repeatable order: sorted by all sortable columns if the plan
    has a shuffle and no final sort, else unchanged.

    After a shuffle, the rows of a partition are in the order of their arrival, so only their values
    can order them.
    """
    execution = result._jdf.queryExecution()
    if execution.logical().getClass().getSimpleName() == "Sort":
        return result
    if re.search(r"\bExchange\b", execution.executedPlan().toString()) is None:
        return result
    sortable = [f.name for f in result.schema.fields if "map<" not in f.dataType.simpleString()]
    return result.orderBy(*["`" + name.replace("`", "``") + "`" for name in sortable])


def _write(batches: Iterator[pa.RecordBatch], result: DataFrame, output: Path) -> int:
    schema = to_arrow_schema(result.schema, timezone="UTC")
    schema = pa.schema([field.with_nullable(True) for field in schema])
    count = 0
    with pq.ParquetWriter(output, schema, compression="lz4", store_schema=True) as writer:
        for batch in batches:
            table = pa.Table.from_batches([batch]).cast(schema)
            writer.write_table(table)
            count += batch.num_rows
    return count
