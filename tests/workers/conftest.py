"""One local Spark for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sparks import alive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.engines.spark.session import SparkWhenNeeded


@pytest.fixture(scope="session")
def spark_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWhenNeeded]:
    """Spark as a worker would start it."""
    from odf_workers.engines.spark.session import SparkOptions, SparkWhenNeeded

    scratch: Path = tmp_path_factory.mktemp("spark")
    # Tests are jobs whose files lie in folders of their own.
    folders = (tmp_path_factory.getbasetemp(),)
    made = SparkWhenNeeded(SparkOptions(scratch=scratch, folders=folders))
    yield made
    made.stop()


@pytest.fixture
def spark(spark_of_the_run: SparkWhenNeeded) -> SparkSession:
    """The session a worker would build, started once; again if a test ended it."""
    return alive(spark_of_the_run)
