"""Garbage collection of very many objects: its pace, and the memory it takes.

Half of the objects are named by a chain, half are garbage; all are local files.

    python benchmarks/gc.py [OBJECTS]        (a million takes some minutes and 4 GB of disk)
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from chain_maker import add_data, linked
from upkeep_parts import TOMORROW, begun

from odf_protocol.metadata.events import DataSlice, HashedBlock, OffsetInterval
from odf_protocol.multihash import ARROW0_SHA3_256, SHA3_256, Multihash
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.index.sql_blocks import insert_blocks
from odf_storage.stores.sql.engine import writing
from odf_storage.stores.sql.tables import refs

OBJECTS = 100_000
PAGE = 5_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS
    with tempfile.TemporaryDirectory() as folder:
        stores = open_stores(StoreSettings(data=Path(folder), durable=False))
        named = count // 4
        data = fill(stores, Path(folder), named)
        garbage = count - 2 * named + 2
        put_files(data, (b"garbage %d" % number for number in range(garbage)))
        before, wall, cpu = peak(), time.perf_counter(), time.process_time()
        report = collect_garbage(stores, clock=TOMORROW)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        removed = sum(tally.count for tally in report.removed.values())
        assert removed == garbage, (removed, garbage)
        print(f"{report.objects:,} objects looked at, {removed:,} removed: {wall:,.0f} s")
        print(f"{report.objects / wall:,.0f} objects/s  ({report.objects / cpu:,.0f}/s of CPU)")
        print(f"memory: {peak() - before:,.1f} MB more than the {before:,.0f} MB before")
        stores.close()


def fill(stores: Stores, folder: Path, count: int) -> Path:
    """A chain of `count` blocks that name a slice each, as files and in the index."""
    made, first = begun(stores, "kamu/bench")
    where = folder / "datasets" / made.id.multibase
    for part in ("blocks", "data"):
        (where / part).mkdir(exist_ok=True)
    assert stores.engine is not None
    blocks, last = list[HashedBlock](), first[-1]
    for number in range(count - 2):
        content = b"slice %d" % number
        last = linked(last, add_data(_slice(number, content), prev=number - 1 if number else None))
        put_files(where / "data", (content,))
        blocks.append(last)
        if len(blocks) == PAGE or number == count - 3:
            put_files(where / "blocks", (block.raw for block in blocks))
            with writing(stores.engine) as db:
                insert_blocks(db, made.id, blocks)
                db.execute(refs.update().where(refs.c.dataset == made.id).values(hash=last.hash))
            blocks.clear()
    stores.publish_head(made.id)
    return where / "data"


def _slice(number: int, content: bytes) -> DataSlice:
    digest = hashlib.sha3_256(content).digest()
    return DataSlice(
        logical_hash=Multihash(ARROW0_SHA3_256, digest),
        physical_hash=Multihash(SHA3_256, digest),
        offset_interval=OffsetInterval(start=number, end=number),
        size=len(content),
    )


def put_files(folder: Path, contents: Iterator[bytes] | tuple[bytes, ...]) -> None:
    for content in contents:
        name = f"{folder}/{Multihash.of(content)}"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(handle, content)
        os.close(handle)


def peak() -> float:
    """Most memory this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
