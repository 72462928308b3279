"""Quote names of columns for Spark, so that it does not read a dot as a path."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def col(name: str) -> Column:
    return F.col(quoted(name))


def listed(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)
