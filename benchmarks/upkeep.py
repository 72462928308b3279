"""How fast a node is looked after: index rebuild and its check, fsck, garbage collection.

The limit is reading and hashing the same block files in one loop, measured in the same run.
    python benchmarks/upkeep.py [BLOCKS]
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import sqlalchemy as sa
from chain_maker import add_data, entry, linked, parquet, seed, slice_of, table
from upkeep_parts import TOMORROW

from protocol.multihash import Multihash
from storage.config import StoreSettings, open_stores
from storage.info import write_info
from storage.sql.engine import open_engine, sqlite_url
from storage.sql.migrate import migrate
from storage.stores import Stores
from storage.upkeep.compare import compare_index
from storage.upkeep.fsck import FsckOptions, check_stores
from storage.upkeep.gc import collect_garbage
from storage.upkeep.rebuild import rebuild_index

BLOCKS = 20_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), count)


def run(folder: Path, count: int) -> None:
    stores = open_stores(StoreSettings(data=folder, durable=False))
    blocks = make_chain(stores, folder, count)
    limit = lap("limit: open, read, hash", count, None, lambda: read_and_hash(blocks))
    objects = stores.objects

    def rebuild(pool: ProcessPoolExecutor | None = None) -> None:
        assert rebuild_index(objects, fresh_index(folder), pool=pool).blocks == count

    lap("index rebuild", count, limit, rebuild)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(int).result()
        lap("index rebuild, one reader", count, limit, lambda: rebuild(pool))
    assert stores.engine is not None
    engine: sa.Engine = stores.engine
    rebuild_index(objects, engine)
    lap("index rebuild --check", count, limit, lambda: compare_index(objects, engine))
    lap("fsck", count, limit, lambda: check_stores(stores))
    quick = FsckOptions(rehash=False)
    lap("fsck --quick", count, limit, lambda: check_stores(stores, quick))
    orphans = make_orphans(blocks.parent / "data", count // 10)
    lap("gc, nothing to do but marks", count, limit, lambda: collect_garbage(stores))
    later = count + orphans
    lap("gc, a tenth is removed", later, limit, lambda: collect_garbage(stores, clock=TOMORROW))
    stores.close()


def lap(name: str, count: int, limit: float | None, work: Callable[[], object]) -> float:
    """Run once; print and return how many a second."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    ratio = "" if limit is None else f"  1/{limit * wall / count:.1f} of the limit"
    print(f"{name:30} {count / wall:9,.0f}/s  ({count / cpu:9,.0f}/s of CPU here){ratio}")
    return count / wall


def make_chain(stores: Stores, folder: Path, count: int) -> Path:
    """A chain of small data blocks as files, under a head the index knows nothing of."""
    made = entry("kamu/bench")
    blocks = folder / "datasets" / made.id.multibase / "blocks"
    blocks.mkdir(parents=True)
    part, block = slice_of(parquet(table(0, 3)), table(0, 3), 0), linked(None, seed(made.id))
    for number in range(count):
        if number:
            block = linked(block, add_data(part, prev=2))
        (blocks / str(block.hash)).write_bytes(block.raw)
    stores.objects.write_ref(made.id, "head", block.hash)
    stores.objects.write_alias(made.id, made.alias)
    write_info(stores.objects, made, pushed=False)
    return blocks


def make_orphans(folder: Path, count: int) -> int:
    folder.mkdir()
    for number in range(count):
        content = f"orphan {number}".encode()
        (folder / str(Multihash.of(content))).write_bytes(content)
    return count


def read_and_hash(folder: Path) -> None:
    for path in os.scandir(folder):
        with open(path.path, "rb") as stream:  # noqa: PTH123
            hashlib.sha3_256(stream.read()).digest()


def fresh_index(folder: Path) -> sa.Engine:
    engine = open_engine(sqlite_url(folder / f"{time.monotonic_ns()}.db"))
    migrate(engine)
    return engine


if __name__ == "__main__":
    main()
