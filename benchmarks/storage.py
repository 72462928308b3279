"""Objects in and out of S3, and head moves on SQLite and PostgreSQL, against what is possible.

The limit of S3 is the bare client moving the same bytes to the same server in the same run;
the limit of a head move is one bare conditional UPDATE and its commit on the same database.
Client and servers share the machine.

    python benchmarks/storage.py [objects] [moves]
"""

from __future__ import annotations

import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from buckets import make_bucket
from chain_maker import entry, linked, long_chain, some_id
from servers import postgres, s3_server

from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_storage.stores.sql.engine import writing

OBJECTS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
MOVES = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SIZE = 100_000
THREADS = 16
DATASETS = 8
ROUNDS = 3


def rate(work: Callable[[int], object], count: int, threads: int) -> float:
    """Pieces of work a second."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: None, range(threads)))
        began = time.perf_counter()
        list(pool.map(work, range(count)))
        return count / (time.perf_counter() - began)


def show(name: str, ours: Iterable[float], limit: Iterable[float], unit: str) -> None:
    """Medians of the rounds; the ratio is that of the medians."""
    mine, best = statistics.median(ours), statistics.median(limit)
    print(f"{name:<34} {mine:8.0f} {unit}/s   limit {best:8.0f}   ratio {mine / best:.2f}")


# --- objects --------------------------------------------------------------------------------


def objects(bucket: Bucket) -> None:
    store, dataset = S3ObjectStore(bucket), some_id("bench")
    content = [secrets.token_bytes(SIZE) for _ in range(OBJECTS)]
    keys = [ObjectKey(dataset, ObjectKind.DATA, Multihash.of(each)) for each in content]
    raw = bucket.client
    where = {"Bucket": bucket.location.bucket}

    def raw_put(number: int) -> None:
        raw.put_object(**where, Key=f"raw/{keys[number].hash}", Body=content[number])

    def raw_get(number: int) -> bytes:
        answer = raw.get_object(**where, Key=f"raw/{keys[number].hash}")
        return bytes(answer["Body"].read())

    def put(number: int) -> None:
        store.put(keys[number], (content[number],))

    def get(number: int) -> bytes:
        with store.open(keys[number]) as stream:
            return stream.read()

    figures: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for work in (raw_put, put, raw_get, get):
            figures.setdefault(work.__name__, []).append(rate(work, OBJECTS, THREADS))
        store.remove(dataset)
        bucket.delete_below("raw/")
    show(f"S3 in, {SIZE // 1000} KB each", figures["put"], figures["raw_put"], "objects")
    show(f"S3 out, {SIZE // 1000} KB each", figures["get"], figures["raw_get"], "objects")


# --- head moves -----------------------------------------------------------------------------


def moves(name: str, stores: Stores) -> None:
    """Blocks and head by compare-and-swap in one transaction; datasets side by side."""
    engine = stores.engine
    assert engine is not None
    names = [some_id(f"{name}-{number}") for number in range(DATASETS)]
    chains = {each: list(_chain(each, MOVES // DATASETS)) for each in names}
    for number, (dataset, chain) in enumerate(chains.items()):
        made = entry(f"kamu/bench-{number}", dataset=dataset)
        stores.registry.create(made, blocks=chain[:1])

    def ours(number: int) -> None:
        chain = chains[names[number]]
        for prev, block in pairwise(chain):
            stores.refs.move(names[number], expected=prev.hash, new=block.hash, blocks=(block,))

    def bare(number: int) -> None:
        for value in range(MOVES // DATASETS):
            with writing(engine) as db:
                done = db.execute(_CAS, {"key": number, "old": value, "new": value + 1})
                assert done.rowcount == 1

    with writing(engine) as db:
        db.execute(sa.text("CREATE TABLE bench (key INTEGER PRIMARY KEY, value INTEGER)"))
        for number in range(DATASETS):
            db.execute(sa.text("INSERT INTO bench VALUES (:key, 0)"), {"key": number})
    each = MOVES // DATASETS
    limit, figure = (rate(work, DATASETS, DATASETS) * each for work in (bare, ours))
    show(f"{name}, {DATASETS} datasets", [figure], [limit], "moves")


_CAS = sa.text("UPDATE bench SET value = :new WHERE key = :key AND value = :old")


def _chain(dataset: DatasetId, count: int) -> Iterator[HashedBlock]:
    prev = long_chain(dataset, 1)[0]
    yield prev
    for number in range(count):
        prev = linked(prev, SetInfo(description=f"move {number}"))
        yield prev


@contextmanager
def opened(folder: Path, database_url: str | None = None) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=folder, database_url=database_url))
    try:
        yield stores
    finally:
        stores.close()


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        for name in ("s3", "postgres", "sqlite", "node"):
            (folder / name).mkdir()
        moves("SQLite", stack.enter_context(opened(folder / "sqlite")))
        url, _ = stack.enter_context(postgres(folder / "postgres"))
        moves("PostgreSQL", stack.enter_context(opened(folder / "node", url)))
        server = stack.enter_context(s3_server(folder / "s3"))
        os.environ["AWS_ACCESS_KEY_ID"] = server.access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = server.secret_key
        objects(Bucket(S3Location.parse(make_bucket(server))))


if __name__ == "__main__":
    main()
