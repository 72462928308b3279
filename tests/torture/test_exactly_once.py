"""Posts under Idempotency-Keys while service, worker, database and S3 server are killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from exactly_once import ALL_ON_SPARK, exactly_once
from world import Shape

pytestmark = pytest.mark.e2e
LONG = bool(os.environ.get("ODF_TORTURE"))


def test_every_receipt_is_true_and_no_row_is_lost_or_doubled(tmp_path: Path) -> None:
    done = exactly_once(tmp_path, Shape(postgres=False, bucket=False), rows=1600, seed=7)
    print(done)
    assert done["rows"] == 1600
    assert done["kills"] >= 2


@pytest.mark.spark
@pytest.mark.timeout(5400 if LONG else 900)
def test_every_receipt_is_true_when_all_stages_run_on_spark(open_folder: Path) -> None:
    rows, most, few, kills = (100_000, 2400, 4, 80) if LONG else (1000, 200, 10, 3)
    shape = Shape(spark=True, cuts=True, settings=ALL_ON_SPARK)
    done = exactly_once(open_folder, shape, rows=rows, seed=20, most=most, few_posts=few)
    print(done)
    assert done["rows"] == rows
    assert done["posts on Spark"] == done["posts"]
    assert done["posts in several jobs"] > 0
    assert done["kills"] >= kills
