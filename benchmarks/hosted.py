"""What a node of many datasets and people costs its host: start, home page, garbage collection,
backups, restore.

    python benchmarks/hosted.py [--datasets 10000] [--accounts 500]

Each step is a program of its own; seconds are of its processor time, since others may load the
machine, and memory is its highest. All is done at a tenth of the size first: `each` is how many
times as much a dataset costs at the full size, and more than 2 fails. A next backup, after a
hundredth of the datasets changed, may read 3 % of the bytes of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
from chain_maker import add_data, entry, linked, parquet, seed, slice_of, table
from nodes import COMMAND, answers
from processes import cpu_seconds, held_bytes
from servers import free_port, wait_until
from upkeep_parts import next_block

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import HashedBlock, SetDataSchema
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    DatasetEntry,
    ObjectKey,
    ObjectKind,
)

MOST_SHARE = 0.03
MOST_GROWTH = 2.0
ROWS = 2_500
"""Of a dataset: 33 kB, beside some 550 bytes of rows of the index, which each backup reads anew."""
HTML = {"accept": "text/html"}


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds, and the highest memory in MB."""

    cpu_s: float
    memory_mb: float


def fill(data: Path, datasets: int, accounts: int) -> list[tuple[DatasetEntry, list[HashedBlock]]]:
    """Datasets of a schema and a slice each, with the accounts in turn; returns each with its
    blocks."""
    rows = table(0, ROWS, value="as in any")
    content = parquet(rows)
    part, schema = slice_of(content, rows, 0), SetDataSchema(schema=from_arrow(rows.schema))
    stores, made = open_stores(StoreSettings(data=data, durable=False)), []
    for number in range(accounts):
        account = AccountId(f"did:odf:fed01{number}")
        stores.accounts.put_account(Account(id=account, name=f"a{number}"))
    for number in range(datasets):
        one = entry(f"a{number % accounts}/d{number}")
        first = linked(None, seed(one.id))
        second = linked(first, schema)
        blocks = [first, second, linked(second, add_data(part, prev=None))]
        stores.objects.put(ObjectKey(one.id, ObjectKind.DATA, part.physical_hash), [content])
        stores.create_dataset(one, blocks)
        made.append((one, blocks))
    stores.close()
    return made


def change(data: Path, some: list[tuple[DatasetEntry, list[HashedBlock]]]) -> None:
    """Add a slice to each of these."""
    rows = table(ROWS, 3, value="new")
    content = parquet(rows)
    part = slice_of(content, rows, ROWS)
    with _opened(data) as stores:
        for one, blocks in some:
            stores.objects.put(ObjectKey(one.id, ObjectKind.DATA, part.physical_hash), [content])
            block = next_block(blocks, part)
            stores.dataset(DatasetRef(id=one.id)).commit([block], expected=blocks[-1].hash)


@contextmanager
def _opened(data: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=data, durable=False))
    try:
        yield stores
    finally:
        stores.close()


def ran(*words: object) -> tuple[Cost, dict[str, Any]]:
    """Run a command of `odf-node`; return what it took, and its answer."""
    command = [str(COMMAND), *map(str, words), "--json"]
    with tempfile.TemporaryFile() as out:
        running = subprocess.Popen(command, stdout=out)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 0, command
        out.seek(0)
        told = json.load(out)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), told


def served(data: Path) -> dict[str, Cost]:
    """Start a service; what the start took, and then each of some pages, once."""
    port, taken = free_port(), {}
    words = ["serve", "--port", str(port), "--workers", "0", "--data", str(data)]
    more = {"ODF_NODE_ANONYMOUS_READS": "all", "ODF_NODE_TENANCY": "multi"}
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([COMMAND, *words], env={**os.environ, **more}) as running:
        try:
            wait_until(lambda: answers(url), "the node")
            time.sleep(2)  # what it does beside the first requests
            spent = cpu_seconds(running.pid)
            taken["start"] = Cost(spent, held_bytes({running.pid}) / 1e6)
            with httpx.Client(base_url=url, headers=HTML, timeout=300) as http:
                pages = {"home": "/", "a list": "/datasets", "a search": "/datasets?search=d77"}
                for name, path in pages.items():
                    http.get(path).raise_for_status()
                    now = cpu_seconds(running.pid)
                    taken[name] = Cost(now - spent, held_bytes({running.pid}) / 1e6)
                    spent = now
        finally:
            running.send_signal(signal.SIGTERM)
    return taken


def measure(folder: Path, datasets: int, accounts: int) -> tuple[dict[str, Cost], float]:
    """What each step took, and which share of the bytes the next backup read."""
    data, backups = folder / "data", folder / "backups"
    made = fill(data, datasets, accounts)
    taken = dict[str, Cost]()

    def step(name: str, *words: object) -> dict[str, Any]:
        taken[name], told = ran(*words)
        print(f"{datasets:6} {name}: {taken[name]}", file=sys.stderr, flush=True)
        return told

    step("gc", "gc", "--data", data)
    first = step("backup", "backup", backups, "--data", data)
    change(data, made[:: len(made) // max(1, datasets // 100)][: datasets // 100])
    following = step("next backup", "backup", backups, "--data", data)
    assert following["changed"] == datasets // 100, following
    step("check", "backup", "check", backups, "--data", data)
    step("restore", "restore", backups, "--data", folder / "new")
    taken |= served(data)
    return taken, following["bytes_read"] / first["bytes_read"]


def main() -> int:
    words = argparse.ArgumentParser(description="What a node of many datasets costs its host.")
    words.add_argument("--datasets", type=int, default=10_000)
    words.add_argument("--accounts", type=int, default=500)
    given = words.parse_args()
    costs, share = [], 0.0
    for part in (10, 1):
        with tempfile.TemporaryDirectory() as folder:
            taken, share = measure(
                Path(folder), given.datasets // part, max(1, given.accounts // part)
            )
            costs.append(taken)
    small, large = costs
    failed = share > MOST_SHARE
    print(f"{'':12} {'s':>8} {'MB':>7}   a tenth: s, MB     each")
    for name, cost in large.items():
        before = small[name]
        each = cost.cpu_s / (10 * before.cpu_s)
        failed |= each > MOST_GROWTH
        print(
            f"{name:12} {cost.cpu_s:8.2f} {cost.memory_mb:7.0f} "
            f"{before.cpu_s:12.2f} {before.memory_mb:6.0f} {each:8.2f}"
        )
    print(f"a next backup reads {share:.2%} of the bytes, at most {MOST_SHARE:.0%} aimed at")
    return failed


if __name__ == "__main__":
    sys.exit(main())
