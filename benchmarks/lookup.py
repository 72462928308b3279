"""One value in a thousand slices: with the node's own index, with learned bounds, and without.

    python benchmarks/lookup.py [slices] [asked]

Each slice has 200 rows with two values that no other slice has, and others that all slices span, so
bounds of the column leave out nothing: only an index tells. Times are of the second and later
requests over HTTP; next to them, in the same run, is DuckDB over the same files. Bytes are those
that the service and its readers read for a request, whatever the files: a node hashes each slice
that it opens, so it reads it whole, where DuckDB reads parts of it.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import duckdb
from kartothek_published import A, Growing
from processes import bytes_read
from service import serving

from odf_storage.datasets.kartothek.own_index import refresh_own_index

SLICES, ASKED = [int(word) for word in [*sys.argv[1:], "1000", "20"][:2]]
ROWS = 200
FEW = 3
"""Requests where every slice is read."""


def rows_of(number: int) -> list[tuple[int, str, int]]:
    spread = [(A, f"{'az'[at % 2]}{number:05}-{at}", at) for at in range(ROWS - 2)]
    return [*spread, (A, f"m{number:05}", number), (A, f"n{number:05}", number)]


@dataclass(frozen=True)
class Took:
    """Medians of a request, and the last answer."""

    seconds: float
    read: float
    answer: Any


def took(ask: Callable[[int], Any], times: int) -> Took:
    """What requests take after the first one."""
    ask(0)
    seconds, read, answer = [], [], None
    for at in range(1, times + 1):
        before, began = bytes_read(os.getpid()), time.perf_counter()
        answer = ask(at * 7 % SLICES)
        seconds.append(time.perf_counter() - began)
        read.append(bytes_read(os.getpid()) - before)
    return Took(statistics.median(seconds), statistics.median(read), answer)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        made = Growing(service.node.stores, "kamu/many")
        for number in range(SLICES):
            made.add(rows_of(number))
        paths = [str(made.slice_path(part)) for part in made.parts]
        bytes_of = sum(part.size for part in made.parts)
        bare = duckdb.connect()
        bare.execute("SET threads = 1")

        def by_duckdb(at: int) -> Any:
            return bare.execute(
                "SELECT * FROM read_parquet(?) WHERE city = ?", [paths, f"m{at:05}"]
            ).fetchall()

        with service.http(service.token()) as client:

            def look_up(at: int) -> Any:
                params = {"column": "city", "value": f"m{at:05}"}
                answer = client.get("/many/lookup", params=params)
                assert len(answer.json()["data"]) == 1, answer.text
                return answer

            def query(at: int) -> Any:
                words = {"query": f"select * from many where city = 'm{at:05}'"}
                answer = client.post("/query", json=words)
                assert len(answer.json()["output"]["data"]) == 1, answer.text
                return answer

            print(f"{SLICES} slices of {ROWS} rows, {bytes_of / 1e6:.1f} MB")
            limit = took(by_duckdb, FEW)
            print(f"  DuckDB, all files         p50 {said(limit)}")
            show("look-up without an index", took(look_up, FEW), limit)
            show("query without an index", took(query, FEW), limit)
            began = time.perf_counter()
            refresh_own_index(made.dataset, made.stores.projections, ["city"])
            print(f"  the index takes {time.perf_counter() - began:.1f} s to build")
            show("look-up with the index", took(look_up, ASKED), limit)
            show("query with the index", took(query, ASKED), limit)


def said(found: Took) -> str:
    return f"{1000 * found.seconds:8.1f} ms, {found.read / 1e6:7.3f} MB read"


def show(name: str, found: Took, limit: Took) -> None:
    ratio = found.seconds / limit.seconds
    opened = found.answer.headers["odf-slices"]
    print(f"  {name:<25} p50 {said(found)}   ratio {ratio:5.2f}   slices {opened}")


if __name__ == "__main__":
    main()
