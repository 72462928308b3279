"""Queries of readers on Spark: datasets are views, a query is one checked SELECT, rows are files.

Spark analyses a query twice: first over views without rows, to find the datasets that it reads;
then over their files. So no slice is opened of a dataset that the query does not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.metadata.events import SqlQueryStep
from odf_storage.datasets.query.messages import QueryTable
from odf_storage.datasets.query.tables import base_name

from ..exchange import worker_side as exchange
from ..port.port import QUERY_SECONDS, EngineListener, InvalidQuery
from ..port.query_size import QuerySize, check_size, columns_of, view_sql
from ..spark.allowed import PREPROCESS
from ..spark.catalyst import Catalyst, quoted
from ..spark.frames import read_parquet, spark_schema, written_files
from ..spark.limit import limited, refuse_whole_divisions
from ..spark.plan import SparkSessions, is_of_the_query, judged, reason
from ..spark.session import Spark
from .engine import version_of

SETTINGS: Mapping[str, str] = {
    # Without this, Spark would take a name in double quotes for a string literal.
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
}
Files = Callable[[int], Sequence[Path]]
"""Returns the files of the slices of a table, by its number. It is called only for tables that the
query reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRows:
    """The result of a query: files in the order of its rows, and the numbers of its tables."""

    schema: pa.Schema
    files: Sequence[Path]
    used: Sequence[int]


class ReaderQueries:
    """Runs queries of readers on Spark; `seconds` and `size` limit each query."""

    def __init__(
        self, spark: Spark, *, seconds: float = QUERY_SECONDS, size: QuerySize = QuerySize()
    ) -> None:
        self._spark, self._seconds, self._size = spark, seconds, size
        self._sessions = SparkSessions(spark, SETTINGS)

    @property
    def version(self) -> str:
        return version_of(self._spark)

    def run(
        self,
        query: str,
        tables: Sequence[QueryTable],
        files: Files,
        scratch: Path,
        listener: EngineListener,
        *,
        skip: int,
        limit: int | None,
    ) -> SparkRows:
        """Compute the query, and write its rows to files in `scratch`.

        Raises:
            InvalidQuery, QueryTooSlow, NoPrimaryKey, and any error of `files`.
        """
        check_size([SqlQueryStep(query=query)], self._size)
        try:
            with limited(self._spark, self._seconds, listener):
                session = self._sessions.of(PREPROCESS)
                planned = _planned(session, query, tables, {})
                used = sorted(_used(planned, tables))
            with limited(self._spark, self._seconds, listener):
                session = self._sessions.of(PREPROCESS)
                result = _planned(session, query, tables, {at: files(at) for at in used})
                result = result.offset(skip) if skip else result
                result = result if limit is None else result.limit(limit)
                return SparkRows(
                    schema=to_arrow_schema(result.schema, timezone="UTC"),
                    files=written_files(result, scratch, "rows"),
                    used=used,
                )
        except (PySparkException, Py4JJavaError) as bad:
            if (failed := exchange.failed(bad)) is not None:
                raise failed from bad
            if not is_of_the_query(bad):
                raise
            raise InvalidQuery(reason(bad)) from None


def _planned(
    session: SparkSession,
    query: str,
    tables: Sequence[QueryTable],
    files: Mapping[int, Sequence[Path]],
) -> DataFrame:
    """Return the query over its tables. A table without files has no rows. Raise `InvalidQuery`."""
    catalyst = Catalyst(session)
    for number, table in enumerate(tables):
        schema, base = columns_of(table), base_name(table, number)
        given = files.get(number)
        rows = (
            read_parquet(session, given, schema) if given else catalyst.empty(spark_schema(schema))
        )
        rows.createTempView(quoted(base))
        for name, view in table.names.items():
            if name != base:
                session.sql(view_sql(view, table, base, quoted)).createTempView(quoted(name))
    result, parts = judged(session, query, PREPROCESS)
    if "Divide" in parts:
        refuse_whole_divisions(catalyst, result)
    _check_names(result.columns)
    return result


def _used(frame: DataFrame, tables: Sequence[QueryTable]) -> Iterator[int]:
    """Yield the numbers of the tables that a plan reads."""
    found = set(_views(json.loads(frame._jdf.queryExecution().analyzed().toJSON())))
    for number, table in enumerate(tables):
        if found & {base_name(table, number), *table.names}:
            yield number


def _views(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _views(each)
    elif isinstance(value, dict):
        if str(value.get("class", "")).endswith(".logical.View"):
            yield str(value["desc"]["identifier"]["table"])
        for each in value.values():
            yield from _views(each)


def _check_names(names: Sequence[str]) -> None:
    """Raise `InvalidQuery` if two columns share a name; a row could have only one of them."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidQuery(f"two columns are called {twice!r}: give one of them a name by AS")
