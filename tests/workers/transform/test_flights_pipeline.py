"""Flights posted month by month, corrected late, and derived once more on another node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.workers.transform.flights import DERIVED, MONTHS, play, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_correction_flows_through_and_another_node_computes_the_same_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    played = play(tmp_path, spark, tables(MONTHS[1:], every=200), partitions=3)
    assert all(played.corrections[name] > 0 for name in DERIVED)
    assert all(played.same[name] == 3 for name in DERIVED)  # two months and the correction
