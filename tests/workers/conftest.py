"""One local Spark for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session a worker would build, started once."""
    from workers.engine.spark import SparkOptions, start_spark

    scratch: Path = tmp_path_factory.mktemp("spark")
    session = start_spark(SparkOptions(scratch=scratch))
    yield session
    session.stop()
