"""Spark on a cluster that loses its executors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from servers import S3Server

if TYPE_CHECKING:
    from spark_cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
KEPT = """
import sys
from pathlib import Path
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.partitions.on_spark import OnSpark
from tests.workers.partitions import stages

session = start_spark(SparkOptions(master=sys.argv[1], scratch=Path(sys.argv[2])))
way = OnSpark(session)
read = way.read([(0, 5_000), (5_000, 10_000)], stages.counted)
print("kept", read.facts(), flush=True)
sys.stdin.readline()
met = read.then(3, stages.by_remainder, stages.listed)
assert met.facts() == [[(n, list(range(n, 10_000, 3)))] for n in range(3)]
read.release()
print("met", flush=True)
sys.stdin.readline()
again = met.then(3, stages.by_remainder, stages.listed)
assert again.facts() == [[(n, list(range(n, 10_000, 3)))] for n in range(3)]
way.close()
session.stop()
"""


@pytest.fixture(scope="module")
def cluster(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from spark_cluster import cluster_without_keys

    with cluster_without_keys(s3, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_rows_that_lost_executors_kept_are_computed_again(cluster: Cluster, tmp_path: Path) -> None:
    """Also those that nobody needed any more, of which the lost ones were made."""
    words = [sys.executable, "-c", KEPT, cluster.url, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        for step in ("kept", "met"):
            assert driver.stdout.readline().startswith(step)
            for pid in cluster.executors():
                cluster.kill(pid)
            driver.stdin.write("\n")
            driver.stdin.flush()
        driver.stdin.close()
        assert driver.wait(timeout=600) == 0
