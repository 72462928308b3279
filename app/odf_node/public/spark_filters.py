"""Convert Spark's filters to filters of a dataset, if both have the same meaning.

Filters on floats are left to Spark, where NaN equals itself, and so are filters on times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

from odf_storage.datasets.pruning.filters import Filter

_OPERATORS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "eq",
    spark.GreaterThan: "gt",
    spark.GreaterThanOrEqual: "ge",
    spark.LessThan: "lt",
    spark.LessThanOrEqual: "le",
    spark.In: "in",
    spark.IsNull: "null",
    spark.IsNotNull: "notnull",
}
_SAME = (pa.types.is_signed_integer, pa.types.is_string, pa.types.is_date32)
"""Types whose values both compare, and write as text, in the same way."""


def pushed(filters: Sequence[spark.Filter], schema: pa.Schema) -> list[Filter]:
    """Return the filters that remove no row that Spark would keep."""
    found = (_filter(each, schema) for each in filters)
    return [each for each in found if each is not None]


def _filter(given: Any, schema: pa.Schema) -> Filter | None:
    word = _OPERATORS.get(type(given))
    if word is None or len(given.attribute) != 1 or given.attribute[0] not in schema.names:
        return None
    column = given.attribute[0]
    if word in ("null", "notnull"):
        return Filter(column, word)
    if not any(is_same(schema.field(column).type) for is_same in _SAME):
        return None
    values = given.value if word == "in" else (given.value,)
    if any(value is None for value in values):
        return None
    return Filter(column, word, tuple(str(value) for value in values))
