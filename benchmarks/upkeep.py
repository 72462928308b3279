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
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import sqlalchemy as sa
from buckets import make_bucket
from chain_maker import add_data, entry, linked, parquet, seed, slice_of, table
from msgspec import structs
from servers import s3_server
from upkeep_parts import TOMORROW

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import HashedBlock, OffsetInterval, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.info import write_info
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.compare import compare_index
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.datasets.upkeep.rebuild import rebuild_index
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind
from odf_storage.stores.sql.engine import open_engine, sqlite_url
from odf_storage.stores.sql.migrate import migrate

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
    lap("gc, the first after a rebuild", count, limit, lambda: collect_garbage(stores))
    lap("gc, nothing to remove", count, limit, lambda: collect_garbage(stores))
    later = count + orphans
    lap("gc, a tenth is removed", later, limit, lambda: collect_garbage(stores, clock=TOMORROW))
    stores.close()
    in_a_bucket(folder, count // 10)


def in_a_bucket(folder: Path, count: int) -> None:
    """The same from an S3 server on this machine; the limit are looks at the same keys."""
    (folder / "s3").mkdir()
    with s3_server(folder / "s3") as server, ThreadPoolExecutor(16) as pool:
        os.environ["AWS_ACCESS_KEY_ID"] = server.access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = server.secret_key
        bucket = Bucket(S3Location.parse(make_bucket(server)))
        objects, made = S3ObjectStore(bucket), entry("kamu/bench")
        blocks = list(chain_of(made, count))
        keys = [ObjectKey(made.id, ObjectKind.BLOCK, block.hash) for block in blocks]
        raw = [(block.hash, block.raw) for block in blocks]
        lap("bucket: blocks put", count, None, lambda: objects.put_blocks(made.id, raw))
        objects.write_ref(made.id, "head", blocks[-1].hash)
        objects.write_alias(made.id, made.alias)
        limit = lap("bucket: looks", count, None, lambda: list(pool.map(objects.stat, keys)))

        def rebuild() -> None:
            assert rebuild_index(objects, fresh_index(folder), pool=pool).blocks == count

        lap("bucket: index rebuild", count, limit, rebuild)
        bucket.obstore = None
        lap("bucket: the same by boto3", count, limit, rebuild)


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
    for block in chain_of(made, count):
        (blocks / str(block.hash)).write_bytes(block.raw)
    stores.objects.write_ref(made.id, "head", block.hash)
    stores.objects.write_alias(made.id, made.alias)
    write_info(stores.objects, made, pushed=False)
    return blocks


def chain_of(made: DatasetEntry, count: int) -> Iterator[HashedBlock]:
    """Small blocks of a chain that keeps the rules."""
    rows = table(0, 1)
    part, last = slice_of(parquet(rows), rows, 0), linked(None, seed(made.id))
    yield last
    last = linked(last, SetDataSchema(schema=from_arrow(rows.schema)))
    yield last
    for number in range(count - 2):
        own = structs.replace(part, offset_interval=OffsetInterval(start=number, end=number))
        last = linked(last, add_data(own, prev=number - 1 if number else None))
        yield last


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
