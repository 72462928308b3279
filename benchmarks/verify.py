"""How fast a dataset is verified, next to SHA3-256 over as many bytes on as many cores.

    python benchmarks/verify.py [MiB]

Makes a dataset of that many MiB (default 1024) in a folder: slices of the usual columns, in
blocks of 12 MiB. Twice: text stored as it is, as some peers do, and in dictionaries, as slices of
this node are. Then, in turns and several rounds, the best of each:

- SHA3-256 of `hashlib` over as many bytes as each verification hashes, in two threads: its aim
  is 80 % of that, and more than 100 % can be had by hashing several streams at once;
- the same bytes hashed side by side (`storage.lanes`), and nothing else done: the limit to that;
- the files only (`logical=False`): each byte of each file once;
- files and rows: each byte, and each value as its column's hash is fed it.

Bytes are those that the specification demands to be hashed: those of files, and with rows those of
values too. Rows have to be read out of Parquet before they are hashed; what that costs is printed
part by part, in one thread, as a share of hashing. Processor seconds per GiB say the same on a
machine that does other things besides.
"""

from __future__ import annotations

import hashlib
import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from chain_maker import add_data, linked, parquet, seed, slice_of, some_id

from odf_protocol.columns.arrow_columns import Coded, Column, Columns
from odf_protocol.columns.arrow_digest import CACHE_WINDOW_ROWS
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.columns.arrow_values import stream, validity
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.datasets.verify.objects import CHUNK_BYTES
from odf_storage.datasets.verify.run import FolderSource, verify_chain
from odf_storage.datasets.verify.stages import in_threads
from odf_storage.lanes import hash_all, lanes, prepare
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.slices.write import parquet_settings

MIB, GIB = 1 << 20, 1 << 30
THREADS = 2
ROUNDS = 3
BLOCK_ROWS = 400_000
AIM = 0.8
PART_ROUNDS = 15
Settings = dict[str, Any]


def rows(start: int, count: int) -> pa.Table:
    rng = np.random.default_rng(start)
    when = pa.array(np.full(count, 1_700_000_000_000 + start), pa.timestamp("ms", "UTC"))
    names = pa.array([f"station {n * n}" for n in range(5000)])  # of 9 to 16 characters
    return pa.table(
        {
            "offset": pa.array(np.arange(start, start + count)),
            "op": pa.array(np.zeros(count, np.int32)),
            "system_time": when,
            "event_time": when,
            "station": names.take(pa.array(rng.integers(0, 5000, count))),
            "reading": pa.array(rng.random(count)),
            "quality": pa.array(rng.random(count)),
            "raised": pa.array(rng.integers(0, 1 << 60, count)),
        }
    )


def value_bytes(table: pa.Table) -> int:
    """Bytes fed to the columns' hashes; none of these columns has nulls."""
    fixed = sum(f.type.bit_width // 8 for f in table.schema if f.type != pa.string())
    text = pc.sum(pc.binary_length(table["station"])).as_py()
    return table.num_rows * (fixed + 8) + text


def make(folder: Path, size: int, settings: Settings) -> tuple[FolderObjects, int]:
    """A dataset of at least `size` bytes, and how many bytes its rows are as hashed."""
    objects = FolderObjects(folder)
    first = rows(0, 1)
    blocks = [linked(None, seed(some_id("bench")))]
    blocks.append(linked(blocks[0], SetDataSchema(schema=from_arrow(first.schema))))
    start = total = values = 0
    while total < size:
        table = rows(start, BLOCK_ROWS)
        content = parquet(table, **settings)
        part = slice_of(content, table, start)
        objects.put(ObjectKind.DATA, part.physical_hash, [content])
        blocks.append(linked(blocks[-1], add_data(part, prev=start - 1 if start else None)))
        start, total = start + BLOCK_ROWS, total + len(content)
        values += value_bytes(table)
    for block in blocks:
        objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
    objects.write_ref("head", blocks[-1].hash)
    return objects, values


Cost = tuple[float, float]
"""Seconds by the clock, and of processors."""


def cost(work: Callable[[], None]) -> Cost:
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def least(costs: Iterable[Cost]) -> Cost:
    """The best by the clock, the best of processors."""
    clocks, processors = zip(*costs, strict=True)
    return min(clocks), min(processors)


def shares(limits: Sequence[Cost], costs: Sequence[Cost]) -> Cost:
    """The limit in parts of each turn's cost, its median: a machine is not as fast all the time."""
    clocks = [limit[0] / took[0] for limit, took in zip(limits, costs, strict=True)]
    processors = [limit[1] / took[1] for limit, took in zip(limits, costs, strict=True)]
    return statistics.median(clocks), statistics.median(processors)


def ceiling(size: int) -> None:
    """SHA3-256 alone over so many bytes, shared by the threads."""
    piece = bytes(MIB)

    def work(count: int) -> None:
        state = hashlib.sha3_256()
        for _ in range(count):
            state.update(piece)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, [size // MIB // THREADS] * THREADS))


def fed(count: int) -> Iterator[bytes]:
    """So many MiB of one stream."""
    piece = bytes(CHUNK_BYTES)
    for _ in range(count * MIB // CHUNK_BYTES):
        yield piece


def at_once(size: int) -> None:
    """So many bytes as streams that are hashed side by side, shared by the threads."""
    streams = lanes()

    def work(count: int) -> None:
        hash_all(fed(count // streams) for _ in range(streams))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, [size // MIB // THREADS] * THREADS))


def verified(objects: FolderObjects, *, logical: bool) -> None:
    report = verify_chain(
        FolderSource(objects), logical=logical, where=partial(in_threads, threads=THREADS)
    )
    if not report.ok:
        raise SystemExit(f"the benchmark's own dataset is not valid: {report.problems[:3]}")


def read_through(columns: Columns, column: Column) -> None:
    deque(columns.batches(column, CACHE_WINDOW_ROWS), maxlen=0)


def parts(settings: Settings) -> None:
    """What one slice takes in one thread, beside hashing it."""
    table = rows(0, BLOCK_ROWS)
    content = pa.py_buffer(parquet(table, **settings))
    values = bytes(value_bytes(table))

    columns = Columns(pq.ParquetFile(content), content)
    held = {
        column: [batch.column(0) for batch in columns.batches(column, CACHE_WINDOW_ROWS)]
        for column in columns.all
    }

    def laid_out(column: Column) -> None:
        coded = Coded(CACHE_WINDOW_ROWS)
        for values in held[column]:
            coded.stream(values) if column.coded else stream(values, validity(values))

    def hash_at_once(content: memoryview) -> None:
        part = len(content) // lanes()
        streams = range(0, part * lanes(), part)
        hash_all([content[at : at + part]] for at in streams)

    works: dict[str, Callable[[], object]] = {
        "hashing the file": partial(hash_at_once, memoryview(content)),
        "hashing the values": partial(hash_at_once, memoryview(values)),
    }
    for column in columns.all:
        works[f"reading {column.name}"] = partial(read_through, columns, column)
        works[f"laying out {column.name}"] = partial(laid_out, column)
    least_s = dict.fromkeys(works, float("inf"))
    for _ in range(PART_ROUNDS):
        for name, work in works.items():
            least_s[name] = min(least_s[name], cost(work)[1])
    hashing = least_s["hashing the file"] + least_s["hashing the values"]
    for name, took in least_s.items():
        if took > hashing / 100:
            print(f"  {name:<26}{took * 1e3:6.1f} ms {took / hashing:6.1%} of hashing")
    print(f"  hashing is {hashing / sum(least_s.values()):.0%} of all parts")


def measure(folder: Path, size: int, settings: Settings) -> None:
    """One dataset, verified in turns with its limit."""
    objects, values = make(folder, size, settings)
    size = verify_chain(FolderSource(objects), logical=False).size
    print(f"  {size / MIB:.0f} MiB of files, {values / MIB:.0f} MiB of values")
    works: dict[str, tuple[int, Callable[[], None]]] = {
        "files": (size, lambda: verified(objects, logical=False)),
        "files and rows": (size + values, lambda: verified(objects, logical=True)),
    }
    costs: dict[str, list[list[Cost]]] = {name: [[], [], []] for name in works}
    for _ in range(ROUNDS):
        for name, (hashed, work) in works.items():
            turns = partial(ceiling, hashed), partial(at_once, hashed), work
            for turn, taken in zip(turns, costs[name], strict=True):
                taken.append(cost(turn))
    for name, (hashed, _) in works.items():
        print(f"  {name}, {hashed / MIB:.0f} MiB to hash, {THREADS} threads:")
        alone, together, own = costs[name]
        for what, taken in zip(
            ("SHA3-256 alone", "side by side", "verified"), costs[name], strict=True
        ):
            took, busy = least(taken)
            print(
                f"    {what:<16}{took:6.2f} s {hashed / took / MIB:7.0f} MiB/s, "
                f"of processors {busy / hashed * GIB:.2f} s/GiB"
            )
        (by_clock, by_processors), (near, nearer) = shares(alone, own), shares(together, own)
        print(
            f"    {by_clock:.0%} of SHA3-256 alone (aim {AIM:.0%}; of processors "
            f"{by_processors:.0%}), {near:.0%} of side by side ({nearer:.0%})"
        )


def main() -> None:
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    print(f"{prepare()} streams side by side")
    for layout, settings in {
        "text as it is": {"compression": "snappy", "use_dictionary": ["op", "system_time"]},
        "text in dictionaries": parquet_settings(rows(0, 1).schema),
    }.items():
        print(layout)
        parts(settings)
        folder = Path(tempfile.mkdtemp(prefix="verify-"))
        try:
            measure(folder, asked * MIB, settings)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
