"""`Engine` on Spark; every request gets a separate session.

Raw queries on Spark: SQL steps over one input, for preprocessing.

Strangers write the queries, so a query may only read its input; `spark/allowed.py` lists the parts
that it may use.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    Transform,
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
)

from ..exchange import worker_side as exchange
from ..iteration.transform import Work, execute, staged_work
from ..port.port import (
    INPUT,
    QUERY_SECONDS,
    QUIET,
    SPARK,
    EngineListener,
    InvalidQuery,
    blamed_on,
    said,
    steps_of,
)
from ..port.query_size import QuerySize, check_size
from ..port.tracing import Arrival, Condition, Sought, Trace
from ..spark.allowed import PREPROCESS, TRANSFORM
from ..spark.catalyst import quoted
from ..spark.frames import read_parquet, written_batches
from ..spark.limit import limited
from ..spark.plan import SparkSessions, is_of_the_query, judged, reason
from ..spark.session import Spark
from .transform import Plans, compute, narrowed, traced


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


class SparkEngine:
    """`Engine` on the Spark of this process. `seconds` limits one query; `settings` are Spark's."""

    name = SPARK

    def __init__(
        self,
        session: Spark,
        *,
        seconds: float = QUERY_SECONDS,
        size: QuerySize = QuerySize(),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._spark, self._seconds, self._size = session, seconds, size
        self._sessions = SparkSessions(session, settings)
        self._plans = Plans()

    @cached_property
    def version(self) -> str:
        return version_of(self._spark)

    def execute_raw_query(
        self, request: RawQueryRequest, listener: EngineListener = QUIET
    ) -> RawQueryResponse:
        try:
            self._check(request.transform)
            with limited(self._spark, self._seconds, listener):
                return run_raw_query(request, self._sessions.of(PREPROCESS))
        except InvalidQuery as bad:
            return RawQueryResponseInvalidQuery(message=said(bad))
        except (PySparkException, Py4JJavaError) as bad:
            if (failed := exchange.failed(bad)) is not None:
                raise failed from bad
            if not is_of_the_query(bad):
                return RawQueryResponseInternalError(message=reason(bad))
            return RawQueryResponseInvalidQuery(message=reason(bad))

    def execute_transform(
        self, request: TransformRequest, listener: EngineListener = QUIET
    ) -> TransformResponse:
        try:
            self._check(request.transform)
            with limited(self._spark, self._seconds, listener):
                work = partial(compute, session=self._sessions.of(TRANSFORM), plans=self._plans)
                return execute(request, work, listener, carried=True)
        except InvalidQuery as bad:
            return TransformResponseInvalidQuery(message=said(bad))
        except (PySparkException, Py4JJavaError) as bad:
            if (failed := exchange.failed(bad)) is not None:
                raise failed from bad
            if not is_of_the_query(bad):
                return TransformResponseInternalError(message=reason(bad))
            return TransformResponseInvalidQuery(message=reason(bad))

    def narrow_transform(
        self, request: TransformRequest, values: Mapping[str, str]
    ) -> Sequence[Sequence[Condition]]:
        """Raise `InvalidQuery`."""
        with self._staged(request, QUIET) as (work, session):
            return narrowed(work, values, session, self._plans)

    def trace_transform(
        self,
        request: TransformRequest,
        sought: Sought,
        arrivals: Sequence[Arrival],
        listener: EngineListener = QUIET,
    ) -> Trace:
        """Raise `InvalidQuery`, and the errors of `staged_work`."""
        with self._staged(request, listener) as (work, session):
            return traced(work, sought, arrivals, session, self._plans)

    @contextmanager
    def _staged(
        self, request: TransformRequest, listener: EngineListener
    ) -> Iterator[tuple[Work, SparkSession]]:
        """Yield the staged inputs of a request, and a session for them."""
        self._check(request.transform)
        beside = Path(request.new_data_path).parent
        with (
            limited(self._spark, self._seconds, listener),
            tempfile.TemporaryDirectory(prefix="trace-", dir=beside) as folder,
        ):
            work, _ = staged_work(request, listener, Path(folder), carried=True)
            yield work, self._sessions.of(TRANSFORM)

    def _check(self, transform: Transform) -> None:
        """Raise `InvalidQuery` if the queries are too long to plan."""
        steps = steps_of(transform)
        with blamed_on(steps):
            check_size(steps, self._size)


def version_of(spark: Spark) -> str:
    """Return the versions of Spark and its Java. Java decides how some numbers look as text."""
    java = spark.sparkContext._jvm.System.getProperty("java.specification.version")
    return f"{spark_version}+java{java}"
