"""What became slower: ratios of the other benchmarks, compared with those kept in the repository.

    python benchmarks/quick.py [--keep] [--only WORD]

Each ratio is what a node takes, in times of a limit or a peer measured in the same run; less is
better. It says what fell by more than a tenth, after a second look at it, and ends with 1 if
anything did. Most ratios are of processor time, which the load of the machine hardly changes; those
of `first_row.py` are by the clock, so the machine has to be quiet. `--keep` writes what was
measured to `quick.json`, beside this file; `--only` takes what a function measures that
has this word in its name.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import commands, exports, first_row, ingest, query, transfer

KEPT = Path(__file__).with_suffix(".json")
WORSE = 1.1
TIMES = 5
ROWS, SLICES = 200_000, 1_000
EXPORTED = 200_000
CROWD_S = 5.0
ARROW_HOLDS = """
import pyarrow
from pathlib import Path
print(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
"""
transfer.SECONDS, ingest.BURST_S = 1.5, 4.0
Ratios = Iterator[tuple[str, float]]


def small_gets(work: Path) -> Ratios:
    """To an application that answers a constant."""
    hashes = transfer.small_chain(work / "small")
    found = transfer.small_rates(work / "small", hashes, work / "node")
    (_, limit), *ours = ((name, cost) for name, (_, cost) in found.items())
    yield from ((f"GET of {name}", cost / limit) for name, cost in ours)


def start(work: Path) -> Ratios:
    """To `import pyarrow`: seconds of the processor until the first answer, and memory at rest."""
    words = commands.words_of(commands.HERE)["import pyarrow"]
    transfer.started(work)  # makes the database
    _, spent, memory = zip(*(transfer.started(work) for _ in range(3)), strict=True)
    limit = statistics.median(commands.cpu_s(words) for _ in range(TIMES))
    yield "start to the first answer", statistics.median(spent) / limit
    told = subprocess.run([*words[:-1], ARROW_HOLDS], capture_output=True, check=True).stdout
    yield "memory at rest", statistics.median(memory) / (int(told) / 1024)


def first_rows(_: Path) -> Ratios:
    """To a PySpark without a node that reads and writes one row, by the clock."""
    limit = first_row.bare_spark()
    took = first_row.measured(first_row.HERE, posts=5)
    yield from ((name.removesuffix(", s"), s / limit) for name, s in took.items() if "row" in name)


def starts_of_commands(_: Path) -> Ratios:
    """Commands to `--version`, imports to `import pyarrow`."""
    words = commands.words_of(commands.HERE)
    took = {
        name: statistics.median(commands.cpu_s(each) for _ in range(TIMES))
        for name, each in words.items()
    }
    for name, seconds in took.items():
        limit = "--version" if name in commands.COMMANDS else "import pyarrow"
        if name != limit:
            yield name, seconds / took[limit]


def queries(work: Path) -> Ratios:
    """To DuckDB that knows the same files; queries of many callers to a point filter of it."""
    with query.serving(work / "node", flight_port=0, turn_wait_s=60) as service:
        stores = service.node.stores
        made = query.WideRows(stores, "kamu/wide", rows=ROWS, slices=SLICES)
        names = query.WideRows(stores, "kamu/names", rows=query.GROUPS, slices=1)
        with query.asking(service, made, names) as ways:
            by_way = dict(zip(query.WAYS, ways, strict=True))

            def to_duckdb(one: query.Query) -> tuple[query.Took, query.Took]:
                return tuple(query.took(by_way[w], one, made, TIMES) for w in ("HTTP", "DuckDB"))

            for one in query.QUERIES:
                ours, theirs = to_duckdb(one)
                yield f"query: {one.name}", ours.cpu / theirs.cpu
        query.refresh_own_index(made.dataset, stores.projections, ["key"])
        spent = query.cpu_seconds(os.getpid())
        many = query.asked_by_many(service, made, CROWD_S)
        spent = query.cpu_seconds(os.getpid()) - spent
        yield "query: point, 32 callers", spent / len(many) / theirs.cpu


def formats(work: Path) -> Ratios:
    """To DuckDB's COPY of the same rows."""
    taken = exports.table(EXPORTED)
    ours = [exports.ours(commands.HERE, EXPORTED, taken.column_names) for _ in range(3)]
    for at, (name, form) in enumerate(exports.FORMATS.items()):
        limit = statistics.median(exports.by_duckdb(taken, form, work) for _ in range(3))
        yield f"export as {name}", statistics.median(seconds[at] for seconds in ours) / limit


def one_row_posts(work: Path) -> Ratios:
    """To PyArrow that parses, writes and hashes the same row."""
    content = ingest.body(0, 1)
    limit = statistics.median(ingest.by_arrow(content) for _ in range(1000))
    setting = {"ODF_WORKER_MICRO_BATCH_BYTES": str(ingest.MICRO_BATCH_BYTES["process"])}
    with ingest.served(work / "node", **setting) as node, redirect_stdout(io.StringIO()):
        bench = ingest.Bench("process", node)
        for datasets in (1, ingest.WRITERS):
            yield f"posts of a row, {datasets} dataset(s)", bench.single_rows(datasets) / limit


ROWS_OF = (small_gets, start, first_rows, starts_of_commands, queries, formats, one_row_posts)


def measured(row: Callable[[Path], Ratios]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as work:
        return dict(row(Path(work)))


def fallen(found: dict[str, float], kept: dict[str, float]) -> set[str]:
    return {name for name, ratio in found.items() if ratio > kept.get(name, ratio) * WORSE}


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--keep", action="store_true")
    given.add_argument("--only", default="")
    asked = given.parse_args()
    kept: dict[str, float] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    began, all_found, worse = time.perf_counter(), {}, set()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for row in ROWS_OF:
        if asked.only not in row.__name__:
            continue
        found = measured(row)
        if fallen(found, kept):
            again = measured(row)
            found = {name: min(ratio, again[name]) for name, ratio in found.items()}
        worse |= fallen(found, kept)
        all_found |= found
        for name, ratio in found.items():
            before = f"kept {kept[name]:9.3g}" if name in kept else "new"
            print(f"  {name:<44} {ratio:9.3g}   {before} {'FELL' * (name in worse)}", flush=True)
    print(f"{time.perf_counter() - began:.0f} s")
    if asked.keep:
        rounded = {name: float(f"{ratio:.3g}") for name, ratio in all_found.items()}
        KEPT.write_text(json.dumps({**kept, **rounded}, indent=1) + "\n")
    return int(bool(worse) and not asked.keep)


if __name__ == "__main__":
    sys.exit(main())
