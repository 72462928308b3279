"""Two accounts on a real node, one of them hostile: what the other waits for its posts.

    python tests/torture/hostile.py [--attack NAME] [--seconds 20] [--limit 2.0]

Every attack of the table in turn, against `odf-node serve` as a process; the other account posts
small, keyed and longer bodies without a pause, each until it is queued, and beside them small
ones that it waits for until their rows are there. Prints the median, the 99th of a hundred and the
longest wait of the first, the median and the longest of the others (`done`), and the memory of the
service, before and under each attack. Ends with 1 if a post failed, or the 99th is above `--limit`:
how soon rows are there depends on what the one worker is at, which no query has for longer than
`QUERY_S`.
"""

from __future__ import annotations

import argparse
import io
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from attacks import ATTACKS, Stage
from nodes import RunningNode, served

QUERY_S = 15
PATIENCE_S = 120
ROW = b'{"city": "A", "n": 1}\n'
LONG = ROW * 4500
MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {{kind: {read}, schema: [city STRING, n BIGINT]}}
      merge: {{kind: Append}}
"""


@dataclass
class Waits:
    """What the posts of the honest account took, in seconds, and what went wrong."""

    seconds: list[float]
    failures: list[str]

    def at(self, part: float) -> float:
        """The wait that this part of the posts did not exceed."""
        known = sorted(self.seconds)
        return known[min(len(known) - 1, int(part * len(known)))] if known else float("inf")


def prepare(node: RunningNode, *, wide_rows: int = 400) -> tuple[Stage, str]:
    """Datasets of both accounts; the stage of the hostile one, and the token of the other."""
    honest, hostile = node.token("alice"), node.token("bob")
    for token, names in ((honest, ["rows", "done"]), (hostile, ["rows", "wide"])):
        with node.http(token) as client:
            for name in names:
                read = "Parquet" if name == "wide" else "NdJson"
                made = client.post(
                    "/datasets",
                    params={"visibility": "public"},
                    content=MANIFEST.format(name=name, read=read),
                )
                made.raise_for_status()
    with node.http(hostile) as client:
        kind = {"content-type": "application/vnd.apache.parquet"}
        client.post("/bob/wide/ingest", content=_wide(wide_rows), headers=kind).raise_for_status()
    return Stage(node.url, hostile, "bob/rows", "bob/wide"), honest


def _wide(rows: int) -> bytes:
    """Rows of a megabyte each, in a few kilobytes."""
    cities = pa.array(["x" * 1_000_000]).take(pa.array([0] * rows))
    sink = io.BytesIO()
    pq.write_table(pa.table({"city": cities, "n": range(rows)}), sink, compression="zstd")
    return sink.getvalue()


@contextmanager
def under(attack: str, stage: Stage) -> Iterator[None]:
    """The attack, from when it has begun until the block ends."""
    fresh, begun = replace(stage, over=threading.Event()), threading.Event()
    thread = threading.Thread(target=ATTACKS[attack], args=(fresh, begun.set), daemon=True)
    thread.start()
    try:
        if not begun.wait(120):
            raise TimeoutError(f"{attack} did not begin")
        yield
    finally:
        fresh.over.set()
        thread.join(timeout=60)


def post_meanwhile(url: str, token: str, until: float, *, least: int = 0) -> Waits:
    """Posts of the honest account, one after another, each until it is queued."""
    waits = Waits([], [])
    headers = {"authorization": f"Bearer {token}", "content-type": "application/x-ndjson"}
    headers["prefer"] = "respond-async"
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        for number in itertools.count():
            if number >= least and time.monotonic() >= until:
                return waits
            key = {"idempotency-key": f"{time.time_ns()}"} if number % 2 else {}
            began = time.monotonic()
            try:
                body = LONG if number % 10 == 0 else ROW
                answer = client.post("/alice/rows/ingest", content=body, headers=key)
                if answer.status_code not in (200, 202):
                    waits.failures.append(f"{answer.status_code} {answer.text[:200]}")
            except httpx.HTTPError as error:
                waits.failures.append(repr(error))
            waits.seconds.append(time.monotonic() - began)
            time.sleep(0.02)
    raise AssertionError


@contextmanager
def waiting_for_rows(url: str, token: str) -> Iterator[Waits]:
    """Posts of the honest account while the block lasts, one after another, until they are done."""
    waits, over = Waits([], []), threading.Event()

    def post() -> None:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/x-ndjson"}
        headers["prefer"] = f"wait={PATIENCE_S}"
        with httpx.Client(base_url=url, headers=headers, timeout=2 * PATIENCE_S) as client:
            while not over.wait(0.1):
                began = time.monotonic()
                try:
                    answer = client.post("/alice/done/ingest", content=ROW)
                    if answer.status_code != 200:
                        waits.failures.append(f"done: {answer.status_code} {answer.text[:200]}")
                except httpx.HTTPError as error:
                    waits.failures.append(f"done: {error!r}")
                waits.seconds.append(time.monotonic() - began)

    thread = threading.Thread(target=post, daemon=True)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join(timeout=2 * PATIENCE_S)


def memory_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def main() -> int:
    wanted = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wanted.add_argument("--attack", choices=ATTACKS, action="append")
    wanted.add_argument("--seconds", type=float, default=20.0)
    wanted.add_argument("--limit", type=float, default=2.0)
    asked = wanted.parse_args()
    bad = False
    with (
        tempfile.TemporaryDirectory() as folder,
        served(
            Path(folder) / "node",
            "--tenancy",
            "multi",
            ODF_WORKER_QUERY_S=str(QUERY_S),
            ODF_NODE_INGEST_WAIT_S=str(PATIENCE_S),
            ODF_NODE_MAX_WAITING_DATASET="1000000",
            ODF_NODE_MAX_WAITING_ACCOUNT="1000000",
            ODF_NODE_MAX_WAITING_NODE="1000000",
        ) as node,
    ):
        stage, honest = prepare(node)
        print(
            f"{'attack':18} {'posts':>6} {'median':>8} {'p99':>8} {'max':>8} "
            f"{'done':>6} {'median':>8} {'max':>8} {'service':>9}"
        )
        shown = "{:18} {:6} {:7.3f}s {:7.3f}s {:7.3f}s {:6} {:7.3f}s {:7.3f}s {:6} MB"
        for name in (None, *(asked.attack or ATTACKS)):
            attack = nullcontext() if name is None else under(name, stage)
            with waiting_for_rows(node.url, honest) as done, attack:
                waits = post_meanwhile(node.url, honest, time.monotonic() + asked.seconds)
            numbers = (waits.at(0.5), waits.at(0.99), waits.at(1.0))
            ended = (len(done.seconds), done.at(0.5), done.at(1.0))
            memory = memory_mb(node.process.pid)
            told = (name or "(none)", len(waits.seconds), *numbers, *ended, memory)
            print(shown.format(*told), flush=True)
            failures = waits.failures + done.failures
            for failure in failures[:3]:
                print("   ", failure)
            bad |= bool(failures) or waits.at(0.99) > asked.limit
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
