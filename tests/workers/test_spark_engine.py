"""Spark keeps the promises of the engine port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.engine import EngineContract
from tests.conformance.engine_transforms import TransformContract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
class TestSparkEngine(EngineContract, TransformContract):
    @pytest.fixture
    def engine(self, spark: SparkSession) -> Any:
        from odf_workers.engines.spark_engine.engine import SparkEngine

        return SparkEngine(spark)

    def test_its_version_names_the_java_that_numbers_become_text_by(self, engine: Any) -> None:
        from pyspark import __version__ as spark_version

        spark, _, java = engine.version.partition("+java")
        assert spark == spark_version
        assert int(java) >= 17
