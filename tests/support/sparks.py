"""The Spark of a test run: one for all tests, and another after a test that ended it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.engines.spark.session import SparkWhenNeeded


def alive(spark: SparkWhenNeeded) -> SparkSession:
    """The session, of a JVM that is there."""
    from odf_workers.engines.spark import jvm

    if jvm.was_ended() or jvm.how_it_ended(0) is not None:
        spark.renew()
    return spark.start()
