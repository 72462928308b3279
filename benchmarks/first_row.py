"""What somebody waits for after the start of a node: the first answer, the receipt of the first
row, the first row of its derivative on Spark; and later, from a post to the row of its derivative.

    python benchmarks/first_row.py [--beside COMMAND] [--rounds 3] [--posts 7]

`--beside` names the `odf-node` of another build: both take turns in the same run, and each line
has the ratio to it. The limit of the derivative's first row is a bare PySpark, measured in each
round, that starts, reads a file of one row and writes one. Seconds are of the wall, medians of the
rounds; each node starts in a folder of its own that has a token and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from servers import free_port

PATIENCE_S = 120
AT_REST_S = 2.0
BETWEEN_S = 0.7
HERE = Path(sys.executable).with_name("odf-node")
ROOT = {
    "name": "cities",
    "kind": "Root",
    "metadata": [
        {
            "kind": "AddPushSource",
            "sourceName": "default",
            "read": {"kind": "NdJson"},
            "merge": {"kind": "Append"},
        }
    ],
}
DERIVATIVE = {
    "name": "names",
    "kind": "Derivative",
    "metadata": [
        {
            "kind": "SetTransform",
            "inputs": [{"datasetRef": "cities", "alias": "cities"}],
            "transform": {
                "kind": "Sql",
                "engine": "spark",
                "query": "select event_time, upper(city) as city from cities",
            },
        }
    ],
}
BARE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.json(sys.argv[1])
rows.selectExpr("event_time", "upper(city) as city").write.parquet(sys.argv[2])
"""


def row(number: int) -> bytes:
    return b'{"event_time": "2024-01-01T00:00:00Z", "city": "c%d"}\n' % number


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("nothing happened for too long")
        time.sleep(0.005)


def answers(http: httpx.Client) -> bool:
    try:
        return http.get("/system/health").status_code == 200
    except httpx.HTTPError:
        return False


def create(http: httpx.Client, content: dict[str, Any]) -> None:
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    http.post("/datasets", json=manifest).raise_for_status()


def post(http: httpx.Client, number: int) -> None:
    wait = {"content-type": "application/x-ndjson", "prefer": "wait=120"}
    answer = http.post("/cities/ingest", content=row(number), headers=wait)
    answer.raise_for_status()
    if answer.status_code != 200:
        raise TimeoutError(answer.text)


def head(http: httpx.Client) -> str:
    """The head of the derivative, which each of its iterations moves."""
    return http.get("/names/refs/head").raise_for_status().text


def rss(pid: int) -> float:
    """MiB of memory of one process."""
    fields = Path(f"/proc/{pid}/smaps_rollup").read_text()
    line = next(line for line in fields.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def measured(command: Path, posts: int) -> dict[str, float]:
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        data, port = Path(name) / "node", free_port()
        made = subprocess.run(
            [command, "token", "create", "--account", "kamu", "--data", data, "--json"],
            capture_output=True,
            check=True,
        )
        headers = {"authorization": f"Bearer {json.loads(made.stdout)['token']}"}
        where = ["--host", "127.0.0.1", "--port", str(port), "--data", str(data)]
        log = (Path(name) / "log").open("wb")
        began = time.perf_counter()
        process = subprocess.Popen([command, "serve", *where], stdout=log, stderr=log)
        try:
            http = httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE_S
            )
            until(lambda: answers(http))
            took["first answer, s"] = time.perf_counter() - began
            create(http, ROOT)
            create(http, DERIVATIVE)
            last = head(http)
            post(http, 0)
            took["receipt of the first row, s"] = time.perf_counter() - began
            until(lambda: head(http) != last)
            took["first row of a derivative, s"] = time.perf_counter() - began
            later = []
            for number in range(1, posts + 1):
                time.sleep(BETWEEN_S)
                last = head(http)
                again = time.perf_counter()
                post(http, number)
                until(lambda last=last: head(http) != last)
                later.append(time.perf_counter() - again)
            took["a post to the row of its derivative, warm, s"] = statistics.median(later)
            time.sleep(AT_REST_S)
            took["memory of the service, MiB"] = rss(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            log.close()
    return took


def bare_spark() -> float:
    """Seconds of a PySpark without a node: it starts, reads a row and writes one."""
    from odf_workers.engines.spark.session import java

    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "row.json"
        source.write_bytes(row(0))
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", BARE, str(source), str(Path(name) / "out")],
            env={**os.environ, "JAVA_HOME": str(java())},
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - began


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--beside", type=Path)
    given.add_argument("--rounds", type=int, default=3)
    given.add_argument("--posts", type=int, default=7)
    asked = given.parse_args()
    builds = [HERE, *([asked.beside] if asked.beside else [])]
    found: dict[Path, dict[str, list[float]]] = {each: defaultdict(list) for each in builds}
    bare = []
    for _ in range(asked.rounds):
        for build in builds:
            for what, value in measured(build, asked.posts).items():
                found[build][what].append(value)
        bare.append(bare_spark())
    print("| | here | beside | ratio |\n|---|---|---|---|")
    for what, values in found[HERE].items():
        here = statistics.median(values)
        other = statistics.median(found[asked.beside][what]) if asked.beside else None
        told = "– | –" if other is None else f"{other:.2f} | {here / other:.2f}"
        print(f"| {what} | {here:.2f} | {told} |")
    derived = statistics.median(found[HERE]["first row of a derivative, s"])
    limit = statistics.median(bare)
    print(f"| a bare PySpark: one row, s | {limit:.2f} | – | {derived / limit:.2f} to it |")


if __name__ == "__main__":
    main()
