"""`Engine` on a Spark session; every request gets a session of its own."""

from __future__ import annotations

from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    TransformRequest,
    TransformResponse,
    TransformResponseInvalidQuery,
)

from .port import QUIET, Listener
from .raw_query import reason, run_raw_query
from .spark_transform import compute
from .transform import execute


class SparkEngine:
    """Spark in this process."""

    name = "spark"
    version = spark_version

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def execute_raw_query(self, request: RawQueryRequest) -> RawQueryResponse:
        return run_raw_query(request, self._session.newSession())

    def execute_transform(
        self, request: TransformRequest, listener: Listener = QUIET
    ) -> TransformResponse:
        session = self._session.newSession()
        try:
            return execute(request, partial(compute, session=session), listener, carried=True)
        except (PySparkException, Py4JJavaError) as bad:
            return TransformResponseInvalidQuery(message=reason(bad))
