"""Spark on a cluster: executors read and write the bucket themselves, and are lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from buckets import fresh_location
from fault_proxy import FaultProxy, fault_proxy
from nodes import odf, served
from readings import post, snapshot
from servers import S3Server

from odf_storage.stores.objects.layout import EXCHANGE
from odf_storage.stores.objects.s3_bucket import Bucket
from odf_workers.engines.exchange.links import AGENT

if TYPE_CHECKING:
    from spark_cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
WORK = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_workers.engines.exchange import worker_side
from odf_workers.engines.spark.frames import read_parquet, written_batches
from odf_workers.engines.spark.session import SparkOptions, start_spark

master, url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("text", pa.string()),
                    ("small", pa.uint8())])
def rows(ids):
    return pa.table([pa.array(ids), pa.array([1000 * n for n in ids], schema.field(1).type),
                     pa.array([f"row {n}" for n in ids]),
                     pa.array([n % 200 for n in ids], pa.uint8())], schema=schema)
staged, slice_ = folder / "staged.parquet", folder / "slice.parquet"
pq.write_table(rows(list(range(500, 0, -1))), staged)
pq.write_table(rows(list(range(501, 1001))).drop_columns(["text"]), slice_)
Bucket(S3Location.parse(url)).call("put_object", "fed01/data/slice", Body=slice_.read_bytes())
worker_side.remember(slice_, "fed01/data/slice", Multihash.of(slice_.read_bytes()))
slice_.unlink()  # only the bucket has it
session = start_spark(SparkOptions(master=master, scratch=folder / "scratch", exchange=url))
for partitions in (1, 3):
    frame = read_parquet(session, [staged, slice_], schema)
    ranged = frame.repartitionByRange(partitions, "id").sortWithinPartitions("id")
    found = pa.Table.from_batches(written_batches(ranged, folder / "scratch"))
    assert found["id"].to_pylist() == list(range(1, 1001)), found["id"]
    assert found["text"].to_pylist() == [f"row {n}" for n in range(1, 501)] + [None] * 500
    assert found["at"].cast(pa.timestamp("ms", "UTC")).equals(
        pa.chunked_array([pa.array([1000 * n for n in range(1, 1001)], schema.field(1).type)]))
    assert found["small"].to_pylist() == [n % 200 for n in range(1, 1001)]
    print("executors", session.sparkContext.uiWebUrl, partitions)
rotten = folder / "rotten.parquet"
worker_side.remember(rotten, "fed01/data/slice", Multihash.of(b"as good a file, and another"))
try:
    shown = read_parquet(session, [rotten], schema).toArrow()
except Exception as error:
    print("refused", worker_side.failed(error))
worker_side.clear()
session.stop()
"""

DRIVER = """
import sys, time
from pathlib import Path
from odf_workers.engines.spark.session import SparkOptions, start_spark

master, memory, cores, machines, folder = sys.argv[1:]
part = {"executor_memory": memory, "cores": int(cores)}
session = start_spark(SparkOptions(master=master, scratch=Path(folder), **part))
known = session.sparkContext._jsc.sc().getExecutorMemoryStatus
while known().size() - 1 < int(machines):  # it knows itself as well
    time.sleep(0.1)
print("executors", known().size() - 1, "of", session.conf.get("spark.driver.host"), flush=True)
sys.stdin.readline()
session.stop()
"""

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

ROWS = 300_000  # a batch is more than one task takes
PATIENCE_S = 240


@pytest.fixture(scope="module")
def cluster(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from spark_cluster import cluster_without_keys

    with cluster_without_keys(s3, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_executors_elsewhere_read_and_write_the_bucket(
    cluster: Cluster, s3_bucket_url: str, tmp_path: Path
) -> None:
    place = fresh_location(s3_bucket_url)
    url = f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")
    work = [sys.executable, "-c", WORK, cluster.url, url, str(tmp_path)]
    done = subprocess.run(work, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("executors") == 2
    assert "refused the bucket has other bytes than those of f1620" in done.stdout
    assert [found.name for found in Bucket(place).walk(f"{EXCHANGE}/")] == []


def test_a_posted_batch_meets_its_history_on_executors_that_ask_the_bucket_themselves(
    cluster: Cluster, s3: S3Server, s3_bucket_url: str, tmp_path: Path
) -> None:
    place = fresh_location(s3_bucket_url)
    with fault_proxy(s3.endpoint) as proxy:
        settings = {
            "ODF_STORE_OBJECTS_URL": f"s3+{proxy.url}/{place.bucket}/{place.prefix}".rstrip("/"),
            "ODF_WORKER_SPARK_MASTER": cluster.url,
            "ODF_NODE_INGEST_WAIT_S": str(PATIENCE_S),
            "ODF_WORKER_WARM_UP": "false",
            "ODF_WORKER_MERGE_STATE_BYTES": "0",  # nothing of the history is kept by the worker
            "ODF_WORKER_MICRO_BATCH_BYTES": "0",
        }
        with served(tmp_path / "node", **settings) as node, node.http(node.token()) as api:
            assert api.post("/datasets", json=snapshot()).status_code == 201
            added = [_post(api, range(at, at + ROWS))["rowsAdded"] for at in (0, ROWS // 2)]
            working = cluster.machines_at_work()
            odf("pull", f"odf+{node.url}/readings", tmp_path / "copy", "--token", node.token())
        asked = _asked_by_executors(proxy)
    assert added == [ROWS, ROWS // 2]
    assert working == 2, "tasks ran on both executors"
    odf("verify", tmp_path / "copy")
    assert asked >= {("GET", EXCHANGE), ("PUT", EXCHANGE)}
    assert [found.name for found in Bucket(place).walk(f"{EXCHANGE}/")] == []


def test_queries_of_publishers_and_readers_run_on_executors(
    cluster: Cluster, s3: S3Server, s3_bucket_url: str, tmp_path: Path
) -> None:
    place = fresh_location(s3_bucket_url)
    settings = {
        "ODF_STORE_OBJECTS_URL": f"s3+{s3.endpoint}/{place.bucket}/{place.prefix}".rstrip("/"),
        "ODF_WORKER_SPARK_MASTER": cluster.url,
        "ODF_NODE_INGEST_WAIT_S": str(PATIENCE_S),
        "ODF_WORKER_WARM_UP": "false",
        "ODF_WORKER_MICRO_BATCH_BYTES": "0",
    }
    source = snapshot()
    push, _ = source["content"]["metadata"]
    push["preprocess"] = sql("select id + 1000 as id, at from input")
    with served(tmp_path / "node", **settings) as node, node.http(node.token()) as api:
        assert api.post("/datasets", json=source).status_code == 201
        assert _post(api, range(8))["rowsAdded"] == 8
        window = "window(at, '1 hour')"
        made = {
            "doubles": "select op, at, id, id * 2 as twice from readings",
            "hours": f"select {window}.start as at, count(*) as n from readings group by {window}",
        }
        for name, query in made.items():
            answer = api.post("/datasets", json=derivative(name, query))
            assert answer.status_code == 201, answer.text
        until(api, "doubles", 8)
        assert _post(api, range(8, 12))["rowsAdded"] == 4
        until(api, "doubles", 12)
        closes_the_hour = post(api, "id,at\n12,2024-01-01T02:00:00Z\n", timeout=PATIENCE_S)
        assert closes_the_hour.status_code == 200, closes_the_hour.text
        until(api, "doubles", 13)
        until(api, "hours", 1)
        [hour] = api.get("/hours/tail").json()["data"]
        assert hour["n"] == 12
        asked = {
            "query": "select sum(twice) as s from doubles",
            "queryDialect": "SqlSpark",
            "dataFormat": "ndjson",
        }
        answer = api.post("/query", json=asked, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        rows = api.get(f"/jobs/{answer.json()['job']}/rows")
        assert rows.json() == {"s": 2 * sum(range(1000, 1013))}
        assert cluster.machines_at_work() >= 1
    assert [found.name for found in Bucket(place).walk(f"{EXCHANGE}/")] == []


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


def test_two_workers_that_divide_cores_and_memory_have_executors_at_the_same_time(
    tmp_path: Path,
) -> None:
    from spark_cluster import MEMORY_MIB, spark_cluster

    machines = cores = workers = 2
    part = [f"{MEMORY_MIB // workers}m", str(machines * cores // workers), str(machines)]
    with spark_cluster(tmp_path, workers=machines, cores=cores) as cluster, ExitStack() as stack:
        for number in range(workers):  # each keeps its executors until the end
            run = [sys.executable, "-c", DRIVER, cluster.url, *part, str(tmp_path / str(number))]
            driver = stack.enter_context(_driver(run))
            assert driver.stdout is not None
            # executors know it by the address it was given, whatever name belongs to that
            assert driver.stdout.readline() == f"executors {machines} of 127.0.0.1\n"


@contextmanager
def _driver(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=env) as process:
        late = Timer(PATIENCE_S, process.kill)
        late.start()
        try:
            yield process
        finally:
            late.cancel()
            process.kill()


def _post(api, numbers):
    rows = "".join(f"{n},2024-01-01T00:00:00Z\n" for n in numbers)
    answer = post(api, f"id,at\n{rows}", timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def sql(query: str) -> dict[str, str]:
    return {"kind": "Sql", "engine": "spark", "query": query}


def derivative(name: str, query: str) -> dict[str, Any]:
    reads = {"datasetRef": "readings", "alias": "readings"}
    event = {"kind": "SetTransform", "inputs": [reads], "transform": sql(query)}
    vocab = {"kind": "SetVocab", "eventTimeColumn": "at"}
    content = {"name": name, "kind": "Derivative", "metadata": [event, vocab]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def until(api: httpx.Client, name: str, records: int) -> None:
    """Wait until a derivative is up to date with so many rows."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = api.get(f"/{name}").json()
        if (found["records"], found["derivation"]["status"]) == (records, "up-to-date"):
            return
        assert found["derivation"]["status"] != "paused", found["derivation"]
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def _asked_by_executors(proxy: FaultProxy) -> set[tuple[str, str]]:
    """Methods, and the part of the layout they were for."""
    asked = zip(proxy.seen, proxy.agents, strict=True)
    requests = [what.split() for what, who in asked if who == AGENT]
    return {
        (method, part)
        for method, path in requests
        for part in (EXCHANGE, "data")
        if f"/{part}/" in path
    }
