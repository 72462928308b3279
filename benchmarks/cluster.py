"""Ingest on a standalone cluster of one executor and of two, each of one core.

    python benchmarks/cluster.py [--rows 2000000] [--store bucket|folder] [--share 0.5]

Posts Csv of `--rows` rows to a node whose batches run on the cluster, appends it, and prints the
seconds with one executor and with two, and the ratio: of the whole post, and of its batch, which
begins when the service has received the rows, and ends with the commit. What executors cannot share
is told beside it: processor time of the node with its driver, of the S3 server, and of each
executor. All of them are on this machine, so on two processors two executors have to share them
with all others. A folder that all share shows the executors without the S3 server. With `--share`,
a control group gives each executor that share of a processor, so that two of them leave room for
all others, as machines of their own would (it needs the right to make control groups).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ingest import Bench, body
from buckets import log_in, make_bucket
from nodes import RunningNode, served
from processes import cpu_seconds
from servers import S3Server, s3_server
from spark_cluster import QUICK_START, Cluster, spark_cluster

PATIENCE_S = 1800
CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 20_000


@contextmanager
def on_cluster(
    folder: Path, s3: S3Server, executors: int, store: str, share: float | None
) -> Iterator[tuple[Cluster, RunningNode]]:
    """A node whose batches run on so many executors."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as groups:
        log_in(patch, s3)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        for name, value in QUICK_START.items():
            patch.setenv(name, value)
        settings = {
            "ODF_NODE_INGEST_WAIT_S": str(PATIENCE_S),
            "ODF_WORKER_MICRO_BATCH_BYTES": "0",
        }
        if store == "bucket":
            settings["ODF_STORE_OBJECTS_URL"] = make_bucket(s3, f"executors-{executors}")
        with spark_cluster(folder, workers=executors) as cluster:
            if share is not None:
                limit(cluster.workers, share, groups)
            with served(folder / "node", ODF_WORKER_SPARK_MASTER=cluster.url, **settings) as node:
                yield cluster, node


def limit(pids: Sequence[int], share: float, groups: ExitStack) -> None:
    """Limit each process, and those that it will start, to a share of a processor. `groups` removes
    the control groups after the processes have ended."""
    by_kind = CGROUPS / "cpu"
    for pid in pids:
        group = (by_kind if by_kind.is_dir() else CGROUPS) / f"executor-{pid}"
        group.mkdir()
        groups.callback(group.rmdir)
        quota = int(share * PERIOD_US)
        if by_kind.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rows", type=int, default=2_000_000)
    given.add_argument("--store", choices=("bucket", "folder"), default="bucket")
    given.add_argument("--share", type=float, help="of a processor, for each executor")
    asked = given.parse_args()
    rows = asked.rows
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    content = body(0, rows)
    posts: dict[int, float] = {}
    batches: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name, s3_server(Path(name)) as s3:
        for executors in (1, 2):
            cluster_of = on_cluster(
                Path(name) / str(executors), s3, executors, asked.store, asked.share
            )
            with cluster_of as (cluster, node):
                places = {"node": node.process.pid, "S3 server": s3.process.pid}
                places |= {f"executor {n}": pid for n, pid in enumerate(cluster.workers)}
                with Bench("spark", node).dataset("Append", "large") as post:
                    post(body(0, 400_000))  # every executor has begun
                    spent = {place: cpu_seconds(pid) for place, pid in places.items()}
                    began = time.perf_counter()
                    post(content)
                    posts[executors] = time.perf_counter() - began
                    batches[executors] = batch_seconds(node, "large")
                    shares = [
                        f"{place} {cpu_seconds(pid) - spent[place]:.1f} s"
                        for place, pid in places.items()
                    ]
            seconds = f"{posts[executors]:8.2f} s, batch {batches[executors]:8.2f} s"
            print(f"{executors} executor(s) {seconds}   processors: ", end="")
            print(", ".join(shares), flush=True)
    whole, batch = posts[1] / posts[2], batches[1] / batches[2]
    print(f"two take {whole:.2f} x the rows of one in a post, {batch:.2f} x in its batch")


def batch_seconds(node: RunningNode, dataset: str) -> float:
    """Seconds from the submission of the newest job to its end."""
    with node.http(node.token()) as http:
        (job, *_) = http.get(f"/{dataset}/jobs").raise_for_status().json()["jobs"]
    begun, ended = (datetime.fromisoformat(job[name]) for name in ("submittedAt", "finishedAt"))
    return (ended - begun).total_seconds()


if __name__ == "__main__":
    main()
