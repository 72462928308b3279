"""Raw queries on Spark: SQL steps over one input, for preprocessing.

Queries come from whoever owns a dataset, so they are held to reading their input: a single
SELECT each, no files, no scripts, no Java methods, no views of other jobs.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
)

from ..merge.columns import quoted
from .frames import read_parquet, written_batches
from .places import blamed_on, said
from .port import INPUT, InvalidQuery, check_begins_as_query, steps_of
from .spark_errors import is_of_the_query, reason

_FORBIDDEN = ("ScriptTransformation", "CallMethodViaReflection", "TryReflect", "PythonUDTF")
"""Parts of a plan that reach outside of the engine."""
_FORBIDDEN_FUNCTIONS = re.compile(
    r"(?i)^(reflect|try_reflect|java_method|input_file_\w+|(from|schema_of)_xml|(from|to)_protobuf)$"
)


def run_raw_query(request: RawQueryRequest, session: SparkSession) -> RawQueryResponse:
    """Answer a raw query. `session` is of this request alone."""
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
            result = _checked(session, step.query)
        if number < len(steps) - 1:
            result.createTempView(quoted(str(step.alias)))
    return in_stable_order(result)


def _checked(session: SparkSession, query: str) -> DataFrame:
    check_is_query(session, query)
    try:
        result = session.sql(query)
    except (PySparkException, Py4JJavaError) as bad:
        if not is_of_the_query(bad):
            raise
        raise InvalidQuery(reason(bad)) from None
    check_plan(result)
    return result


def check_is_query(session: SparkSession, text: str) -> None:
    """Raises `InvalidQuery` unless the text is one SELECT (or WITH … SELECT)."""
    parser = session._jsparkSession.sessionState().sqlParser()
    check_begins_as_query(text)
    try:
        plan = parser.parseQuery(text)
    except (PySparkException, Py4JJavaError) as bad:
        raise InvalidQuery(reason(bad)) from None
    for name in _function_names(plan.toJSON()):
        if _FORBIDDEN_FUNCTIONS.match(name):
            raise InvalidQuery(f"the function {name} is not available")


def check_plan(result: DataFrame) -> None:
    """Raises `InvalidQuery` if the analysed plan reaches outside of the engine."""
    plan = result._jdf.queryExecution().analyzed().treeString()
    for name in _FORBIDDEN:
        if name in plan:
            raise InvalidQuery(f"{name} is not available in queries")


def in_stable_order(result: DataFrame) -> DataFrame:
    """Rows as they come if every row comes from one input row; else in an order of their own.

    After a shuffle rows of one partition come as they arrive, so nothing but their values
    can order them.
    """
    execution = result._jdf.queryExecution()
    if execution.logical().getClass().getSimpleName() == "Sort":
        return result
    if re.search(r"\bExchange\b", execution.executedPlan().toString()) is None:
        return result
    sortable = [f.name for f in result.schema.fields if "map<" not in f.dataType.simpleString()]
    return result.orderBy(*["`" + name.replace("`", "``") + "`" for name in sortable])


def _function_names(plan: str) -> Iterator[str]:
    for node in _walk(json.loads(plan)):
        name = node.get("nameParts")
        if isinstance(name, str):
            yield name.strip("[]").rsplit(",", 1)[-1].strip()
        elif isinstance(name, list) and name:
            yield str(name[-1])


def _walk(value: object) -> Iterator[dict[str, object]]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


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
