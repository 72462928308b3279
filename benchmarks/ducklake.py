"""A lake of many datasets, and of one with many slices: what DuckDB takes to attach and to scan it.

    python benchmarks/ducklake.py DATASETS SLICES [ROWS]

Each dataset has ten columns and one slice; one more has SLICES slices of ROWS rows (2000), which
are also read from the disk of the node. DuckDB has a process of its own. Ratios are of the
processor's time, to the same query of the files on the disk, by turns in the same run: of DuckDB
alone, and together with what the node took to send the bytes. "Again" is a second scan by the same
connection, which DuckDB has the files in its memory for.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from ducklake_clients import duck, lake
from processes import own_cpu_seconds
from service import serving
from table_made import ITEMS, TableMade, item

from odf_storage.stores.ports.values import Visibility

TIMES = 5
SCAN_AIM, ATTACH_AIM_S = 1.3, 1.0
DISK, URLS, LAKE = "files on the disk", "URLs of files", "lake"
ONE = "SELECT count(*) FROM odf.kamu.d0"


def seconds(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def client(attach: str, sources: dict[str, str]) -> dict[str, Any]:
    """What DuckDB takes in this process: seconds of the clock, of its processor, of the node's."""
    taken: dict[str, list[tuple[float, ...]]] = {}

    def took(name: str, what: Callable[[], object]) -> None:
        began = time.process_time(), own_cpu_seconds(os.getppid())
        wall = seconds(what)
        ended = time.process_time(), own_cpu_seconds(os.getppid())
        taken.setdefault(name, []).append((wall, ended[0] - began[0], ended[1] - began[1]))

    for _ in range(TIMES):
        for name, source in sources.items():
            query = f"SELECT count(name), sum(weight), max(price) FROM {source}"
            with duck(None, attach="SELECT 1") as db:
                took("attach", lambda d=db: d.execute(attach))
                took("first count", lambda d=db: d.execute(ONE).fetchall())
                took(name, lambda q=query, d=db: d.execute(q).fetchall())
                took(f"{name}, again", lambda q=query, d=db: d.execute(q).fetchall())
    return taken


def main(datasets: int, slices: int, rows: int = 2_000) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as service:
        stores, public = service.node.stores, Visibility.PUBLIC
        for at in range(datasets):
            made = TableMade(stores, f"kamu/d{at}", ITEMS, visibility=public)
            made.add([item(at)])
        many = TableMade(stores, "kamu/many", ITEMS, visibility=public)
        told = [item(at) for at in range(rows)]
        many.add_blocks([told] * slices)
        size_mb = sum(part.size for part in many.parts) / 1e6
        print(f"{datasets} datasets, {slices} slices of {rows} rows, {size_mb:.1f} MB")
        print(f"make the lake: {seconds(lambda: lake(service)):.2f} s")
        many.add([item(0)])
        print(f"make it again, one head later: {seconds(lambda: lake(service)):.2f} s")
        print(f"name it again: {seconds(lambda: lake(service)):.3f} s")
        names = {str(part.physical_hash) for part in many.parts}
        files = [str(each) for each in Path(folder).rglob("data/*") if each.name in names]
        urls = [f"{service.url}/many/data/{Path(path).name}" for path in files]
        sources = {
            DISK: f"read_parquet({files})",
            URLS: f"read_parquet({urls})",
            LAKE: "odf.kamu.many",
        }
        given = json.dumps([lake(service)["attach"], sources])
        done = subprocess.run(
            [sys.executable, __file__], input=given, stdout=subprocess.PIPE, text=True, check=True
        )
    taken = {
        name: [statistics.median(each) for each in zip(*runs, strict=True)]
        for name, runs in json.loads(done.stdout).items()
    }
    for name, (wall, own, node) in taken.items():
        told = f"{name}: {wall:.2f} s, of the processor {own:.2f} s and {node:.2f} s of the node"
        disk = taken[f"{DISK}, again" if name.endswith("again") else DISK][1]
        if name.startswith((DISK, URLS, LAKE)):
            told += f"; ratio {own / disk:.2f}, with the node {(own + node) / disk:.2f}"
        print(told)
    attach = sum(taken["attach"][1:]) + sum(taken["first count"][1:])
    print(
        f"aims: a scan {SCAN_AIM}, attaching and counting {ATTACH_AIM_S} s; it took {attach:.2f} s"
    )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps(client(*json.load(sys.stdin))))
    else:
        main(*(int(each) for each in sys.argv[1:]))
