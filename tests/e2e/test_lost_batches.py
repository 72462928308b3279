"""Batches on a cluster that loses executors, master, driver, worker, or the bucket for a while.

`ODF_TORTURE=1` posts ten million rows instead of some hundred thousand.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from buckets import fresh_location
from fault_proxy import FaultProxy, fault_proxy
from nodes import RunningNode, odf, served
from readings import snapshot
from servers import S3Server, wait_until

from odf_protocol.identity import DatasetId
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.objects.layout import EXCHANGE, dataset_folder
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_workers.engines.exchange.links import AGENT

if TYPE_CHECKING:
    from spark_cluster import Cluster

LONG = bool(os.environ.get("ODF_TORTURE"))
ROWS = 10_000_000 if LONG else 300_000
PATIENCE_S = 3000 if LONG else 240
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(4 * PATIENCE_S)]


@dataclass
class Scene:
    """A node whose batches run on a cluster, and what may go wrong around it."""

    node: RunningNode
    cluster: Cluster
    proxy: FaultProxy
    place: S3Location
    chance: random.Random

    def lose_executors(self, is_over: Callable[[], bool]) -> int:
        """Kill one that works every few seconds."""
        kills = 0
        while not is_over() and kills < (12 if LONG else 2):
            working = [pid for pid in self.cluster.executors() if self.cluster.is_working(pid)]
            if working:
                self.cluster.kill(self.chance.choice(working))
                kills += 1
            time.sleep(self.chance.uniform(4, 12) if LONG else self.chance.uniform(0.5, 2))
        return kills

    def lose_driver(self, is_over: Callable[[], bool]) -> int:
        """Kill the worker's Java."""
        return 0 if is_over() else self._kill([java for _, java in self._workers()])

    def lose_worker(self, is_over: Callable[[], bool]) -> int:
        """Kill the worker, which can remove nothing."""
        return 0 if is_over() else self._kill([worker for worker, _ in self._workers()])

    def lose_master(self, is_over: Callable[[], bool]) -> int:
        """Kill the master and start it again, then kill executors, which it has to replace."""
        if is_over():
            return 0
        self.cluster.restart_master()
        return self._kill_executors()

    def lose_state_of_master(self, is_over: Callable[[], bool]) -> int:
        """Replace the master by one that gives the worker's Spark no executors, and does not tell
        it; then kill those that it has."""
        if is_over():
            return 0
        self.cluster.replace_master()
        return self._kill_executors()

    def lose_bucket(self, is_over: Callable[[], bool]) -> int:
        """Have the bucket refuse everything until it was asked, and three seconds more. Executors
        of a large batch may compute for longer than that without it."""
        if is_over():
            return 0
        seen = len(self.proxy.seen)
        self.proxy.always = "busy"
        wait_until(
            lambda: is_over() or len(self.proxy.seen) > seen, "a request to refuse", PATIENCE_S
        )
        time.sleep(3)
        self.proxy.always = None
        return len(self.proxy.seen) - seen

    def begins(self, is_over: Callable[[], bool]) -> None:
        """Wait until executors ask the bucket for rows: those of earlier batches may be idle."""
        before = self.proxy.agents.count(AGENT)
        wait_until(
            lambda: is_over() or self.proxy.agents.count(AGENT) > before,
            "executors that ask the bucket",
            PATIENCE_S,
        )

    def collect(self) -> None:
        """Collect what no chain names, however young it is."""
        url = self.node.env["ODF_STORE_OBJECTS_URL"]
        stores = open_stores(StoreSettings(data=self.node.data, objects_url=url), migrate=False)
        collect_garbage(stores, grace=timedelta(0))
        stores.close()

    def id_of(self, name: str) -> str:
        with self.node.http(self.node.token()) as api:
            return str(api.get(f"/{name}").json()["id"])

    def _workers(self) -> list[tuple[int, int]]:
        """Processes of the node's workers, each with its Java."""
        from spark_cluster import children

        return [
            (worker, java)
            for worker in children(self.node.process.pid)
            for java in children(worker)
            if b"SparkSubmit" in Path(f"/proc/{java}/cmdline").read_bytes()
        ]

    def _kill_executors(self) -> int:
        return self._kill(list(filter(self.cluster.is_working, self.cluster.executors())))

    def _kill(self, processes: Sequence[int]) -> int:
        for pid in processes:
            self.cluster.kill(pid)
        return len(processes)


@pytest.fixture(scope="module")
def scene(
    s3: S3Server, s3_bucket_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    from spark_cluster import cluster_without_keys

    folder, place = tmp_path_factory.mktemp("lost"), fresh_location(s3_bucket_url)
    with cluster_without_keys(s3, folder) as cluster, fault_proxy(s3.endpoint) as proxy:
        settings = {
            "ODF_STORE_OBJECTS_URL": f"s3+{proxy.url}/{place.bucket}/{place.prefix}".rstrip("/"),
            "ODF_WORKER_SPARK_MASTER": cluster.url,
            "ODF_NODE_INGEST_WAIT_S": str(PATIENCE_S),
            "ODF_WORKER_WARM_UP": "false",
            "ODF_WORKER_MICRO_BATCH_BYTES": "0",
            "ODF_WORKER_SPARK_EXECUTOR_WAIT_S": "20",
        }
        with served(folder / "node", **settings) as node:
            yield Scene(node, cluster, proxy, place, random.Random(17))


@pytest.mark.parametrize(
    "lost", ["executors", "master", "state_of_master", "driver", "worker", "bucket"]
)
def test_a_batch_is_committed_once_whatever_is_lost_meanwhile(
    lost: str, scene: Scene, tmp_path: Path
) -> None:
    name = f"without-{lost.replace('_', '-')}"
    lose: Callable[[Callable[[], bool]], int] = getattr(scene, f"lose_{lost}")
    over = threading.Event()
    with scene.node.http(scene.node.token()) as api, ThreadPoolExecutor(1) as pool:
        assert api.post("/datasets", json=snapshot(name)).status_code == 201
        losing = pool.submit(lose_in_time, scene, lose, over.is_set)
        receipt = _posted(api, name)
        over.set()
        assert losing.result() > 0, "something was lost before the batch was over"
    assert receipt["rowsAdded"] == ROWS
    odf("pull", f"odf+{scene.node.url}/{name}", tmp_path / "copy", "--token", scene.node.token())
    odf("verify", tmp_path / "copy")
    scene.collect()
    bucket, folder = Bucket(scene.place), dataset_folder(DatasetId.parse(scene.id_of(name)))
    stored = {Path(found.name).name for found in bucket.walk(f"{folder}/data/")}
    assert stored == {path.name for path in (tmp_path / "copy" / "data").iterdir()}
    assert [found.name for found in bucket.walk(f"{EXCHANGE}/")] == []


def lose_in_time(
    scene: Scene, lose: Callable[[Callable[[], bool]], int], is_over: Callable[[], bool]
) -> int:
    """How often something was lost, once the batch ran and before it was over."""
    scene.begins(is_over)
    return lose(is_over)


def _posted(api: httpx.Client, name: str) -> dict[str, object]:
    """The receipt. A job that is begun again is waited for as well."""
    rows = b"id,at\n" + b"".join(b"%d,2024-01-01T00:00:00Z\n" % n for n in range(ROWS))
    headers = {"content-type": "text/csv"}
    answer = api.post(f"/{name}/ingest", content=rows, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
