"""Spark on a cluster that loses executors and its driver, and a bucket that is away for a while."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from buckets import fresh_location
from fault_proxy import FaultProxy, fault_proxy
from judge import check_all, check_nothing_left
from nodes import RunningNode, served
from readings import snapshot
from servers import S3Server, wait_until
from upkeep_parts import TOMORROW

from odf_node.protocol.identity import DatasetRef
from odf_node.protocol.metadata.events import AddData
from odf_node.storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.datasets.upkeep.gc import collect_garbage
from odf_node.storage.stores.objects.layout import EXCHANGE
from odf_node.storage.stores.objects.s3_bucket import Bucket
from odf_node.storage.stores.ports.values import ObjectKind

if TYPE_CHECKING:
    from spark_cluster import Cluster

LONG = bool(os.environ.get("ODF_TORTURE"))
ROWS = 10_000_000 if LONG else 150_000
"""Of the first batch, whose executors are killed; the two that follow have a tenth of it, half of
which are new."""
PATIENCE_S = 5000 if LONG else 350
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(PATIENCE_S + 50)]
KEPT = """
import sys
from pathlib import Path
from odf_node.workers.engines.spark.session import SparkOptions, start_spark
from odf_node.workers.partitions.on_spark import OnSpark
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
                cluster.kill_executor(pid)
            driver.stdin.write("\n")
            driver.stdin.flush()
        driver.stdin.close()
        assert driver.wait(timeout=200) == 0


def test_batches_get_through_losses_of_executors_bucket_and_driver(
    cluster: Cluster, s3: S3Server, s3_bucket_url: str, tmp_path: Path
) -> None:
    place = fresh_location(s3_bucket_url)
    data, kills = tmp_path / "node", list[int]()
    with fault_proxy(s3.endpoint) as proxy:
        settings = {
            "ODF_STORE_OBJECTS_URL": f"s3+{proxy.url}/{place.bucket}/{place.prefix}".rstrip("/"),
            "ODF_WORKER_SPARK_MASTER": cluster.url,
            "ODF_WORKER_LEASE_S": "3",
            "ODF_WORKER_JOB_DEATHS": "1000",
            "ODF_WORKER_MICRO_BATCH_BYTES": "0",
            "ODF_WORKER_MERGE_STATE_BYTES": "0",
            "ODF_WORKER_WARM_UP": "false",
        }
        with served(data, **settings) as node, node.http(node.token()) as api:
            assert api.post("/datasets", json=snapshot()).status_code == 201
            at = 0
            for rows, trouble in (
                (ROWS, lambda stop: _kill_executors(cluster, stop, kills)),
                (ROWS // 10, lambda stop: _refuse(proxy, stop)),
                (ROWS // 10, lambda stop: _kill_driver(node, cluster)),
            ):
                begin = max(0, at - rows // 2)
                receipt = _posted(api, range(begin, begin + rows), trouble)
                assert receipt["rowsAdded"] == begin + rows - at
                assert receipt["ran"]["way"] == "spark"
                at = begin + rows
        print(f"{len(kills)} executors killed, {at} rows")
        assert kills
        found = StoreSettings(data=data, objects_url=settings["ODF_STORE_OBJECTS_URL"])
        stores = open_stores(found, migrate=False, repair=False)
        try:
            _judge(stores, at)
        finally:
            stores.close()
    assert [found.name for found in Bucket(place).walk(f"{EXCHANGE}/")] == []


def _posted(api: httpx.Client, numbers: range, trouble: Any) -> dict[str, Any]:
    """The receipt of a batch, which is asked for until it comes, while there is trouble."""
    text = "id,at\n" + "".join(f"{n},2024-01-01T00:00:00Z\n" for n in numbers)
    headers = {"content-type": "text/csv", "idempotency-key": f"{numbers}"}
    over = threading.Event()
    threading.Thread(target=trouble, args=(over,), daemon=True).start()
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            try:
                answer = api.post("/readings/ingest", content=text, headers=headers)
            except httpx.HTTPError:
                continue
            if answer.status_code == 200:
                return dict(answer.json())
            assert answer.status_code in (202, 409, 429, 503), answer.text
            time.sleep(0.5)
    finally:
        over.set()
    pytest.fail("the batch never gets through")


def _kill_executors(cluster: Cluster, over: threading.Event, kills: list[int]) -> None:
    """Now one, now all of them, as long as there is work."""
    dice = random.Random(17)
    while not over.wait(dice.uniform(6, 12) if kills else 0.5):
        there = cluster.executors()
        for pid in dice.sample(there, min(len(there), dice.choice((1, 1, 2)))):
            cluster.kill_executor(pid)
            kills.append(pid)


def _refuse(proxy: FaultProxy, over: threading.Event) -> None:
    """The bucket throttles for a while, then is away, again and again."""
    for fault in ("busy", "reset", "busy"):
        if over.wait(2):
            break
        proxy.always = fault
        over.wait(5)
        proxy.always = None
    proxy.always = None


def _kill_driver(node: RunningNode, cluster: Cluster) -> None:
    """The worker, and its part of Spark with it, once it has executors."""
    from spark_cluster import children

    wait_until(lambda: bool(cluster.executors()), "executors", 100)
    time.sleep(2)
    for pid in children(node.process.pid):
        if b"odf_node.workers.main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def _judge(stores: Stores, rows: int) -> None:
    dataset = stores.dataset(DatasetRef.parse("kamu/readings"))
    offset, seen = 0, 0
    for block in dataset.blocks():
        part = block.event.new_data if isinstance(block.event, AddData) else None
        if part is None:
            continue
        with dataset.open_object(ObjectKind.DATA, part.physical_hash) as stream:
            table = pq.read_table(stream, columns=["offset", "id"])
        assert table["offset"].to_pylist() == list(range(offset, offset + table.num_rows))
        offset += table.num_rows
        seen += pc.sum(table["id"]).as_py()
    assert offset == rows
    assert seen == rows * (rows - 1) // 2
    check_all(stores)
    collect_garbage(stores, clock=TOMORROW)
    check_all(stores)
    check_nothing_left(stores)
