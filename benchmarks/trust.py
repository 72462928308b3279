"""What trust costs: posts with the log of heads and without, proofs of heads, many leaves.

    python benchmarks/trust.py [--posts 100] [--leaves 1000000]       (10000000 takes half an hour)

Posts of one row, each durable, in turns to two nodes that differ in the log only: heads of the
second one move without a note. Then `head-proof` beside `refs/head` of the same datasets. Then a
log of `--leaves` leaves in SQLite: the processor time of a proof of one of them, since others may
load the machine, and what its tiles take.
Exits with 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
import sqlalchemy as sa
from nodes import RunningNode, served

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_protocol.trust.heads import logged_name
from odf_protocol.trust.merkle import inclusion_path
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Visibility
from odf_storage.stores.registers.signed.head_log import HeadLog, HeadLogReads, tiles
from odf_storage.stores.sql.engine import reading, writing
from odf_storage.stores.sql.tables import unlogged_heads

POSTS_AT_LEAST = 0.9
"""Posts in a second with the log, of those without."""
PROOF_AT_MOST = 1.3
"""Time of `head-proof`, of that of `refs/head`."""
PROOF_MS, LEAF_BYTES = 5.0, 40.0
DATASETS, WARM_UP, PROOFS = 8, 10, 400
HEADS, STEP = 1_000, 20_000
"""Datasets of the large log, and its leaves that are noted at once."""
NOT_LOGGED = """
import odf_storage.stores.index.sql_unlogged as notes
notes.note_heads = notes.note_missing = lambda *_, **__: None
"""
"""Python runs it in each process of the node before anything else (`sitecustomize`)."""
ROOT = {
    "kind": "AddPushSource",
    "sourceName": "default",
    "read": {"kind": "NdJson", "schema": {"fields": [{"name": "n", "type": "Int64"}]}},
    "merge": {"kind": "Append"},
}


@contextmanager
def datasets_of(node: RunningNode) -> Iterator[httpx.Client]:
    """A client of a node with datasets that take rows."""
    with node.http(node.token()) as http:
        for number in range(DATASETS):
            content = {"name": f"d{number}", "kind": "Root", "metadata": [ROOT]}
            body = {"kind": "DatasetSnapshot", "version": 1, "content": content}
            http.post("/datasets?visibility=public", json=body).raise_for_status()
        yield http


def post(http: httpx.Client, number: int) -> float:
    """Seconds until a row is received."""
    headers = {"content-type": "application/x-ndjson", "prefer": "wait=60"}
    body = f'{{"event_time": "2024-01-01T00:00:00Z", "n": {number}}}\n'
    began = time.perf_counter()
    answer = http.post(f"/d{number % DATASETS}/ingest", content=body, headers=headers)
    if answer.status_code != 200:
        raise SystemExit(f"a post was not received: {answer.status_code} {answer.text}")
    return time.perf_counter() - began


def asked(http: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    http.get(path).raise_for_status()
    return time.perf_counter() - began


def say(what: str, found: float, limit: float, *, at_least: bool = False) -> bool:
    is_good = found >= limit if at_least else found <= limit
    sign = "≥" if at_least else "≤"
    print(f"{what:<58} {found:8.2f}   {sign} {limit:g}   {'' if is_good else 'MISSED'}", flush=True)
    return is_good


def of_nodes(folder: Path, posts: int) -> bool:
    """Posts and proofs of two nodes, in turns."""
    (folder / "patch").mkdir()
    (folder / "patch" / "sitecustomize.py").write_text(NOT_LOGGED)
    cold = {"ODF_WORKER_WARM_UP": "false"}
    path = os.pathsep.join(filter(None, (str(folder / "patch"), os.environ.get("PYTHONPATH"))))
    with (
        served(folder / "on", **cold) as on,
        served(folder / "off", **cold, PYTHONPATH=path) as off,
        datasets_of(on) as logged,
        datasets_of(off) as unlogged,
    ):
        took = {id(logged): list[float](), id(unlogged): list[float]()}
        for number in range(WARM_UP + posts):
            pair = (logged, unlogged)[:: 1 if number % 2 else -1]
            for http in pair:
                took[id(http)].append(post(http, number))
        if unlogged.get("/log/checkpoint").status_code != 404:
            raise SystemExit("the second node keeps a log, too")
        with_log, without = (statistics.median(each[WARM_UP:]) for each in took.values())
        print(f"a post of one row: {with_log * 1e3:.1f} ms, without the log {without * 1e3:.1f} ms")
        is_good = say(
            "posts with the log, of those without",
            without / with_log,
            POSTS_AT_LEAST,
            at_least=True,
        )
        return proofs(logged) and is_good


def proofs(http: httpx.Client) -> bool:
    """`head-proof` beside `refs/head`, each dataset in its turn."""
    took: dict[str, list[float]] = {"refs/head": [], "head-proof": []}
    for number in range(PROOFS):
        for path, seconds in took.items():
            seconds.append(asked(http, f"/d{number % DATASETS}/{path}"))
    head, proof = (statistics.median(each) for each in took.values())
    print(f"refs/head: {head * 1e3:.2f} ms, head-proof {proof * 1e3:.2f} ms")
    return say("time of head-proof, of that of refs/head", proof / head, PROOF_AT_MOST)


def of_leaves(folder: Path, count: int) -> bool:
    """A log of many leaves: the time of a leaf and of a proof, the memory of the process, and the
    bytes of the tiles."""
    stores = open_stores(StoreSettings(data=folder, durable=False))
    before, began, worked_before = peak_mb(), time.perf_counter(), time.process_time()
    fill(stores, count)
    seconds, busy_s = time.perf_counter() - began, time.process_time() - worked_before
    state, chance = stores.head_log.state(), random.Random(1)
    assert state is not None
    print(f"{state.size:,} leaves in {seconds:,.0f} s, {state.size / seconds:,.0f} a second")
    print(
        f"a leaf: {busy_s / state.size * 1e6:.0f} µs of the processor; "
        f"memory {before} MB before, {peak_mb()} MB at most"
    )
    waited, worked = list[float](), list[float]()
    for _ in range(PROOFS):
        began, busy = time.perf_counter(), time.process_time()
        with reading(stores.engine) as db:
            nodes = HeadLogReads(db).nodes(state.size)
            inclusion_path(chance.randrange(state.size), state.size, nodes)
        waited.append(time.perf_counter() - began)
        worked.append(time.process_time() - busy)
    print(f"a proof: p50 {statistics.median(waited) * 1e3:.2f} ms by the clock")
    is_quick = say("milliseconds of a proof, p50", statistics.median(worked) * 1e3, PROOF_MS)
    taken = bytes_of_tiles(stores)
    stores.close()
    return say("bytes of tiles a leaf", taken / state.size, LEAF_BYTES) and is_quick


def peak_mb() -> int:
    """Return the most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def fill(stores: Stores, count: int) -> None:
    """Note so many moves of heads, and have the log take them in."""
    log: HeadLog = stores.head_log
    heads = [DatasetId(number.to_bytes(32, "big")) for number in range(HEADS)]
    for first in range(0, count, STEP):
        at = Instant((1_700_000_000 + first) * NANOS)
        rows = [
            {
                "dataset": heads[number % HEADS],
                "kind": "commit",
                "block": Multihash.of(number.to_bytes(8, "big")),
                "sequence_number": number // HEADS,
                "visibility": Visibility.PUBLIC.value,
                "at": at,
            }
            for number in range(first, min(first + STEP, count))
        ]
        with writing(stores.engine) as db:
            db.execute(sa.insert(unlogged_heads), rows)
        while log.integrate("bench.invalid", _name, _unsigned, at, map_s=3600) is not None:
            pass


def _name(dataset: DatasetId, _: Visibility) -> str:
    return logged_name(dataset, None)


def _unsigned(origin: str, size: int, _root: bytes) -> str:
    return f"{origin} {size}"


def bytes_of_tiles(stores: Stores) -> float:
    """Bytes of the pages of the table and its index; of its content where SQLite does not tell."""
    pages = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%log_tiles%'"
    with reading(stores.engine) as db:
        try:
            return float(db.execute(sa.text(pages)).scalar_one())
        except sa.exc.OperationalError:
            return float(
                db.execute(sa.select(sa.func.sum(sa.func.length(tiles.c.hashes)))).scalar_one()
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--posts", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        is_good = of_nodes(Path(folder), given.posts)
    with tempfile.TemporaryDirectory() as folder:
        is_good = of_leaves(Path(folder), given.leaves) and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
