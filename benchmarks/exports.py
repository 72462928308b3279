"""Rows as CSV and as NDJSON: processor time of our writers, against DuckDB's COPY of the same rows.

    python benchmarks/exports.py [--rows 1000000] [--rounds 3] [--beside PYTHON]

`--beside` names the Python of another build; both take turns in the same run. DuckDB has one
thread, as a reader of the node has. Rows as a dataset has them: offset, operation, two times, a
whole number, a text, a float. Last, each column alone.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

BATCH_ROWS = 8192
START_MS = 1_700_000_000_123
FORMATS = {"csv": "csv", "ndjson": "json"}
OURS = "import sys; sys.path.insert(0, {folder!r}); import exports; exports.told({rows}, {columns})"


def table(rows: int) -> pa.Table:
    numbers = range(rows)
    moments = pa.timestamp("ms", "UTC")
    return pa.table(
        {
            "offset": pa.array(numbers, pa.int64()),
            "op": pa.array([0] * rows, pa.int32()),
            "system_time": pa.array([START_MS] * rows, moments),
            "event_time": pa.array([START_MS // 1000 * 1000 + n * 1000 for n in numbers], moments),
            "id": pa.array(numbers, pa.int64()),
            "city": pa.array([f"city {n % 50}" for n in numbers]),
            "value": pa.array([n / 7 for n in numbers], pa.float64()),
        }
    )


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def told(rows: int, columns: list[str]) -> None:
    """Print the seconds of this build, by format."""
    try:
        from odf_storage.datasets.read.formats import Format, encoded
    except ImportError:  # before the packages had names of their own
        from odf_node.storage.datasets.read.formats import Format, encoded

    taken = table(rows).select(columns)

    def export(form: Format) -> int:
        return sum(map(len, encoded(taken.schema, iter(taken.to_batches(BATCH_ROWS)), form)))

    print(*(cpu_s(lambda form=form: export(Format(form))) for form in FORMATS))


def by_duckdb(taken: pa.Table, form: str, folder: Path) -> float:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("taken", taken)
        target = folder / f"rows.{form}"
        return cpu_s(lambda: connection.execute(f"copy taken to '{target}' (format {form})"))


def ours(python: Path, rows: int, columns: list[str]) -> list[float]:
    code = OURS.format(folder=str(Path(__file__).parent), rows=rows, columns=columns)
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rows", type=int, default=1_000_000)
    given.add_argument("--rounds", type=int, default=3)
    given.add_argument("--beside", type=Path)
    asked = given.parse_args()
    builds = [Path(sys.executable), *([asked.beside] if asked.beside else [])]
    whole = table(asked.rows)
    print("| columns | format | s | to DuckDB | beside, s | ratio |\n|---|---|---|---|---|---|")
    for columns in (whole.column_names, *([name] for name in whole.column_names)):
        found: dict[Path, list[list[float]]] = {build: [] for build in builds}
        limits: list[list[float]] = []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(asked.rounds):
                for build in builds:
                    found[build].append(ours(build, asked.rows, columns))
                taken = whole.select(columns)
                limits.append([by_duckdb(taken, f, Path(folder)) for f in FORMATS.values()])
        for at, form in enumerate(FORMATS):
            here, *others = (statistics.median(r[at] for r in found[b]) for b in builds)
            limit = statistics.median(r[at] for r in limits)
            more = f"{others[0]:.2f} | {here / others[0]:.2f}" if others else "– | –"
            name = "all" if len(columns) > 1 else columns[0]
            print(f"| {name} | {form} | {here:.2f} | {here / limit:.2f} | {more} |", flush=True)


if __name__ == "__main__":
    main()
