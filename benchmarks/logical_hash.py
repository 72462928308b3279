"""How fast rows are digested, next to raw SHA3-256 over the same bytes.

    python benchmarks/logical_hash.py [rows]

Prints, per column of a million rows: bytes fed to the hash, time, MiB/s, and the share of
the speed of SHA3 alone; then whole record sets, in one thread. Processor time, each next to SHA3
over as many bytes. Every column of every batch counts with the best of several rounds over all of
them, so other work on the machine shows little in the ratios.

The first record set is the one the aim is about: 80 % of SHA3. What keeps it from 100 % is laying
out bytes that are not in memory as they are hashed. A text of 12 characters takes 46 ns to hash and
14 ns to lay out: 9 to copy it and eight zeros (Arrow's join), 3 for the place of its length and
writing it there. A nullable number takes 17 ns and 6, half of that for leaving the nulls out. The
rest costs nothing.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.columns.arrow_digest import ArrowDigest

ROWS = 1_000_000
BATCH_ROWS = 65_536
ROUNDS = 15
MIB = 1 << 20
AIM = 0.8


def columns(rows: int) -> dict[str, pa.Array]:
    """The columns the aims speak of, and others."""
    rng = np.random.default_rng(1)
    nulls = rng.random(rows) < 0.1
    names = [f"city {'abcdefghij'[: n % 11]}{n % 100}" for n in range(1000)]
    text = pa.array(names).take(pa.array(rng.integers(0, len(names), rows)))
    return {
        "int64": pa.array(np.arange(rows)),
        "float64, 10 % null": pa.array(rng.random(rows), mask=nulls),
        "text, 6 to 17 characters": text,
        "bool": pa.array(rng.random(rows) < 0.5),
        "timestamp(ms, UTC)": pa.array(np.arange(rows), pa.timestamp("ms", "UTC")),
        "text, 10 % null": pa.array(text.to_numpy(zero_copy_only=False), mask=nulls),
        "text, 200 characters": pa.array(["x" * 200]).take(pa.array(np.zeros(rows // 10, int))),
        "bool, 10 % null": pa.array(rng.random(rows) < 0.5, mask=nulls),
        "list<int32>, 4 items": pa.ListArray.from_arrays(
            pa.array(np.arange(0, 4 * rows + 4, 4, dtype=np.int32)),
            pa.array(np.arange(4 * rows, dtype=np.int32)),
        ),
    }


AIMED_AT = 5
"""The first so many columns."""


def bytes_hashed(table: pa.Table) -> int:
    """What the rules feed to the column states."""
    total = 0
    for column in table.columns:
        array = column.combine_chunks()
        valid = len(array) - array.null_count
        total += array.null_count
        if pa.types.is_boolean(array.type):
            total += valid
        elif pa.types.is_string(array.type):
            total += pc.sum(pc.binary_length(array)).as_py() + 8 * valid
        elif pa.types.is_list(array.type):
            total += 8 * valid + 4 * len(array.values)
        else:
            total += valid * array.type.bit_width // 8
    return total


Steps = list[Callable[[], object]]
"""A piece of work, cut into what is measured at a time."""


def best(clock: Callable[[], float], *works: Steps) -> list[float]:
    """Time of each of several works, which are done in turn: the sum over their best steps."""
    times = [[float("inf")] * len(steps) for steps in works]
    for _ in range(ROUNDS):
        for steps, shortest in zip(works, times, strict=True):
            for number, step in enumerate(steps):
                start = clock()
                step()
                shortest[number] = min(shortest[number], clock() - start)
    return [sum(shortest) for shortest in times]


def digest(table: pa.Table) -> Steps:
    """Batch by batch."""
    state = ArrowDigest(table.schema)
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    return [lambda batch=batch: state.update(batch) for batch in batches]


def sha3(raw: memoryview, steps: int) -> Steps:
    """Hashing as many bytes in as many steps."""
    length = len(raw) // steps

    def hashing(start: int) -> Callable[[], object]:
        return lambda: hashlib.sha3_256(raw[start : start + length]).digest()

    return [hashing(start) for start in range(0, steps * length, length)]


def line(name: str, size: int, took: float, ratio: str) -> None:
    speed = size / MIB / took
    print(f"{name:28}{size / MIB:7.1f} MiB{took * 1e3:8.1f} ms{speed:7.0f} MiB/s   {ratio}")


def alone(name: str, table: pa.Table, raw: memoryview, aim: str = "") -> None:
    """One thread, next to SHA3."""
    size, steps = bytes_hashed(table), digest(table)
    limit, took = best(time.process_time, sha3(raw[:size], len(steps)), steps)
    line(name, size, took, f"{limit / took:.0%} of SHA3{aim}")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    raw = memoryview(np.random.default_rng(2).bytes(128 * rows))
    arrays = columns(rows)
    print(f"{rows} rows, batches of {BATCH_ROWS}")
    for name, array in arrays.items():
        alone(name, pa.table({"c": array}), raw)
    named = {f"c{n}": array for n, array in enumerate(arrays.values()) if len(array) == rows}
    aimed_at = pa.table(dict(list(named.items())[:AIMED_AT]))
    alone("the first five columns", aimed_at, raw, f" (aim {AIM:.0%})")
    everything = pa.table(named)
    alone("all columns of that length", everything, raw)


if __name__ == "__main__":
    main()
