"""`Engine` on Spark; every request gets a separate session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from types import MappingProxyType

from py4j.protocol import Py4JJavaError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException

from odf_protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
)
from odf_protocol.metadata.transforms import Transform

from ..exchange import worker_side as exchange
from ..iteration.transform import execute
from ..port.port import QUERY_SECONDS, QUIET, SPARK, InvalidQuery, Listener, steps_of
from ..port.positions import blamed_on, said
from ..port.query_size import QuerySize, check_size
from ..spark.allowed import PREPROCESS, TRANSFORM
from ..spark.errors import is_of_the_query, reason
from ..spark.limit import limited
from ..spark.query import Sessions
from ..spark.session import Spark
from .raw_query import run_raw_query
from .state import Plans
from .transform import compute


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
        self._sessions = Sessions(session, settings)
        self._plans = Plans()

    @cached_property
    def version(self) -> str:
        return version_of(self._spark)

    def execute_raw_query(
        self, request: RawQueryRequest, listener: Listener = QUIET
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
        self, request: TransformRequest, listener: Listener = QUIET
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

    def _check(self, transform: Transform) -> None:
        """Raise `InvalidQuery` if the queries are too long to plan."""
        steps = steps_of(transform)
        with blamed_on(steps):
            check_size(steps, self._size)


def version_of(spark: Spark) -> str:
    """Return the versions of Spark and its Java. Java decides how some numbers look as text."""
    java = spark.sparkContext._jvm.System.getProperty("java.specification.version")
    return f"{spark_version}+java{java}"
