"""How fast rows are digested, next to raw SHA3-256 over the same bytes.

    python benchmarks/bench_digest.py [rows]

Prints, per column of a million rows: bytes fed to the hash, time, MiB/s, and the share of
the speed of SHA3 alone; then the whole record set, with one and with two threads.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from protocol.arrow_digest import Run, in_order, logical_hash

ROWS = 1_000_000
BATCH_ROWS = 65_536
REPEATS = 5
MIB = 1 << 20


def columns(rows: int) -> dict[str, pa.Array]:
    """The columns the specification was measured with, and a list."""
    rng = np.random.default_rng(1)
    nulls = rng.random(rows) < 0.1
    text = pa.array([f"city {n % 10_000:04}" for n in range(rows)])
    return {
        "int64": pa.array(np.arange(rows)),
        "float64, 10 % null": pa.array(rng.random(rows), mask=nulls),
        "utf8, 9 characters": text,
        "utf8, 10 % null": pa.array(text.to_numpy(zero_copy_only=False), mask=nulls),
        "bool": pa.array(rng.random(rows) < 0.5),
        "timestamp(ms, UTC)": pa.array(np.arange(rows), pa.timestamp("ms", "UTC")),
        "list<int32>, 4 items": pa.ListArray.from_arrays(
            pa.array(np.arange(0, 4 * rows + 4, 4, dtype=np.int32)),
            pa.array(np.arange(4 * rows, dtype=np.int32)),
        ),
    }


def bytes_hashed(array: pa.Array) -> int:
    """What the rules feed to the column state."""
    valid = len(array) - array.null_count
    if pa.types.is_boolean(array.type):
        return len(array)
    if pa.types.is_string(array.type):
        return (
            len("".join(value or "" for value in array.to_pylist())) + 8 * valid + array.null_count
        )
    if pa.types.is_list(array.type):
        return 8 * len(array) + 4 * len(array.values)
    return valid * array.type.bit_width // 8 + array.null_count


def best(job: Callable[[], object]) -> float:
    """Shortest of several runs, in seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def digest_time(table: pa.Table, run: Run = in_order) -> float:
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    return best(lambda: logical_hash(batches, table.schema, run=run))


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    raw = bytes(32 * MIB)
    sha3 = 32 / best(lambda: hashlib.sha3_256(raw).digest())
    print(f"SHA3-256 alone: {sha3:.0f} MiB/s; {rows} rows, batches of {BATCH_ROWS}")
    arrays = columns(rows)
    sizes = {name: bytes_hashed(array) / MIB for name, array in arrays.items()}

    def line(name: str, size: float, seconds: float) -> None:
        speed = size / seconds
        print(
            f"{name:28}{size:7.1f} MiB{seconds * 1e3:8.1f} ms{speed:7.0f} MiB/s{speed / sha3:6.0%}"
        )

    for name, array in arrays.items():
        line(name, sizes[name], digest_time(pa.table({"c": array})))
    everything = pa.table(dict(enumerate_names(arrays)))
    line("all columns", sum(sizes.values()), digest_time(everything))
    with ThreadPoolExecutor(2) as pool:

        def in_threads(jobs: Iterable[Callable[[], None]]) -> None:
            for done in [pool.submit(job) for job in jobs]:
                done.result()

        line("all columns, two threads", sum(sizes.values()), digest_time(everything, in_threads))


def enumerate_names(arrays: dict[str, pa.Array]) -> list[tuple[str, pa.Array]]:
    return [(f"c{number}", array) for number, array in enumerate(arrays.values())]


if __name__ == "__main__":
    main()
